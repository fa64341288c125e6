"""MiniMind 2."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like, mixture

MINIMIND = Names(
    layer="layers.{layer}",
    embed="tok_embeddings",
    head="output",
    norm="norm",
    norms=("attention_norm", "ffn_norm"),
    attention="attention",
    qkvo=("wq", "wk", "wv", "wo"),
    mlp_module="feed_forward",
    mlp=("w1", "w3", "w2"),
)


@family("minimind", architectures=("MiniMindLM", "MiniMindForCausalLM"))
def minimind(config: Config) -> ModelShape:
    """Grouped-query attention, a tied head; a mixture only where `use_moe` is true, whatever the
    expert counts say. `hidden_dim` null means 8/3 of the width, rounded up. Defaults: LMConfig.
    """
    hidden = config.integer("dim", "hidden_size", default=512)
    step = config.integer("multiple_of", default=64)
    rounded = step * -(-(8 * hidden // 3) // step)
    dims = read_dims(
        config,
        layers=8,
        hidden=512,
        heads=8,
        kv_heads=2,
        intermediate=config.integer("hidden_dim", default=rounded),
        vocab=6400,
        max_positions=8192,
        tied=True,
    )
    if not config.boolean("use_moe", default=False):
        return llama_like(config, dims, names=MINIMIND)
    shared = config.boolean("n_shared_experts", default=True)
    experts = mixture(
        MINIMIND.at(config),
        dims.hidden,
        dims.intermediate,
        dims.all_layers,
        num_experts=config.integer("n_routed_experts", default=4),
        top_k=config.integer("num_experts_per_tok", default=2),
        module="feed_forward",
        names=("w1", "w3", "w2"),
        shared_width=dims.intermediate if shared else 0,
    )
    return llama_like(config, dims, names=MINIMIND, mlp=experts)
