"""A.X K2: DeepSeek-V3.2's attention with a gate, and norms that gate themselves."""

from collections.abc import Sequence
from dataclasses import replace

from app.core.cache import SparseIndexer
from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import chosen, feed_forward, read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, model_shape, read_dims, uniform_groups
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.fields import Config
from app.resolve.architectures.mla import (
    Indexer,
    Latent,
    indexer_weights,
    latent_attention,
    latent_part,
    read_latent,
)


@family("axk2", architectures=("AXK2ForCausalLM",))
def axk2(config: Config) -> ModelShape:
    """A latent and an index key a token in every layer, the key in the model's own precision (no
    engine serves it; its code caches it so). Defaults: AXK2Config.
    """
    dims = read_dims(
        config,
        layers=48,
        hidden=2048,
        heads=32,
        head_dim=64,
        intermediate=5120,
        vocab=163840,
        max_positions=131072,
    )
    latent = read_latent(config, q=384, kv=128, nope=64, rope=32, v=64)
    if latent.q_lora_rank is None:
        raise config.fail("q_lora_rank", "must be stated: the gate and the indexer read it")
    indexer = Indexer(
        heads=config.integer("index_n_heads", default=16),
        head_dim=config.integer("index_head_dim", default=128),
    )
    keys = SparseIndexer(index_head_dim=indexer.head_dim, quantised=False)
    sparse = sparse_layers(config, dims.layers, first_dense=1)
    moe = read_moe(config, experts=128, top_k=8, width=512, shared=1)
    rank = config.integer("gated_norm_rank", default=16)
    at = config.prefix + "model.layers.{layer}"
    layers = dims.all_layers
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, latent_part(latent), keys),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_attention(config, at, dims, latent),
            *indexer_weights(at, dims, latent, indexer, layers),
            *feed_forward(at, dims, moe, sparse),
            *_gated_norm(at, "input_layernorm", dims.hidden, rank, layers),
            *_gated_norm(at, "post_attention_layernorm", dims.hidden, rank, chosen(sparse, True)),
            *norms(at, dims.hidden, chosen(sparse, False), "post_attention_layernorm"),
            vector(config.prefix + "model.norm", dims.hidden),
        ],
        traits=("sparse_attention",),
    )


def _attention(config: Config, at: str, dims: Dims, latent: Latent) -> list[Weight]:
    """Queries and the output's gate come from one matrix over two copies of the queries' rank."""
    bias = config.boolean("attention_bias", default=False)
    head = latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim
    merged = (dims.heads * head, 2 * (latent.q_lora_rank or 0))
    return [
        replace(weight, name=weight.name.replace("q_b_proj", "q_gate_proj"), shape=merged)
        if weight.name.endswith("q_b_proj")
        else weight
        for weight in latent_attention(at, dims, latent, dims.all_layers, bias=bias)
    ]


def _gated_norm(at: str, name: str, hidden: int, rank: int, layers: Sequence[int]) -> list[Weight]:
    if not layers:
        return []
    base = f"{at}.{name}"
    other = Part.OTHER
    return [
        vector(f"{base}.norm", hidden, layers=layers),
        linear(f"{base}.mlp.fc1", rank, hidden, part=other, layers=layers),
        linear(f"{base}.mlp.fc2", hidden, rank, part=other, layers=layers),
    ]
