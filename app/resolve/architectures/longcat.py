"""LongCat-Flash: two latent attentions and two MLPs a layer beside a shortcut to the experts."""

from dataclasses import replace

from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import array
from app.resolve.architectures.blocks_moe import Moe, as_mtp, correction, drafts, mtp_layers
from app.resolve.architectures.common_shape import (
    LAYERS,
    Dims,
    model_shape,
    read_dims,
    uniform_groups,
)
from app.resolve.architectures.common_weights import (
    gated_mlp,
    linear,
    norms,
    routed_experts,
    router,
    vector,
    vocabulary,
)
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import dense_mlp
from app.resolve.architectures.mla import Latent, latent_attention, latent_part, read_latent

MAX_TABLES = 256


@family(
    "longcat_flash",
    "longcat_flash_ngram",
    "longcat_causal_lm",
    architectures=("LongcatFlashForCausalLM", "LongcatCausalLM", "LongcatFlashNgramForCausalLM"),
)
def longcat_flash(config: Config) -> ModelShape:
    """Two latents a token in every layer. Some experts a token may pick are identities without
    weights, so fewer than `moe_topk` work; the most is counted. Defaults: LongcatFlashConfig.
    """
    latent = read_latent(config)
    dims = _dims(config)
    moe = Moe(
        num_experts=config.integer("n_routed_experts", default=512),
        top_k=config.integer("moe_topk", "num_experts_per_tok", default=12),
        width=config.integer("expert_ffn_hidden_size", "moe_intermediate_size", default=2048),
    )
    identities = config.integer("zero_expert_num", default=256, minimum=0)
    at = config.prefix + "model.layers.{layer}"
    modules = mtp_layers(config, dims, default=1)
    part = latent_part(latent)
    return model_shape(
        config,
        dims,
        groups=uniform_groups(dims, part, part),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_layers(at, dims, latent),
            *_experts(at, dims, moe, identities),
            vector(config.prefix + "model.norm", dims.hidden),
            *_ngrams(config, dims),
            *_mtp(config, dims, latent, len(modules)),
        ],
        draft_groups=drafts(modules, dims.heads, part),
    )


def _dims(config: Config) -> Dims:
    """`num_layers` counts layers; `num_hidden_layers`, where it stands alone, the attentions."""
    if config.has("num_layers"):
        layers = config.integer("num_layers", maximum=MAX_LAYERS)
    else:
        layers = max(1, config.integer("num_hidden_layers", default=56, maximum=MAX_LAYERS) // 2)
    stated = dict.fromkeys(LAYERS)
    width = config.integer("ffn_hidden_size", "intermediate_size", default=12288)
    return read_dims(
        config.overlay(**stated),
        layers=layers,
        hidden=6144,
        heads=64,
        head_dim=64,
        intermediate=width,
        vocab=131072,
        max_positions=131072,
    )


def _layers(at: str, dims: Dims, latent: Latent) -> list[Weight]:
    layers = dims.all_layers
    weights: list[Weight] = []
    for index in ("0", "1"):
        weights += latent_attention(at, dims, latent, layers, module=f"self_attn.{index}")
        weights += gated_mlp(at, dims.hidden, dims.intermediate, layers, module=f"mlps.{index}")
        weights += norms(
            at,
            dims.hidden,
            layers,
            f"input_layernorm.{index}",
            f"post_attention_layernorm.{index}",
        )
    return weights


def _experts(at: str, dims: Dims, moe: Moe, identities: int) -> list[Weight]:
    layers = dims.all_layers
    scored = replace(moe, num_experts=moe.num_experts + identities)
    return [
        router(at, dims.hidden, scored.num_experts, layers, module="mlp.router.classifier"),
        *correction(at, scored, layers, name="mlp.router.e_score_correction_bias"),
        *routed_experts(
            at,
            dims.hidden,
            moe.width,
            layers,
            num_experts=moe.num_experts,
            top_k=moe.top_k,
        ),
    ]


def _ngrams(config: Config, dims: Dims) -> list[Weight]:
    """Tables that embed the last tokens together, each narrow, projected to the model's width."""
    if not config.has("ngram_vocab_size_ratio"):
        return []
    ratio = config.number("ngram_vocab_size_ratio", default=1.0, maximum=4096.0)
    splits = config.integer("emb_split_num", maximum=MAX_TABLES)
    tables = splits * (config.integer("emb_neighbor_num", maximum=MAX_TABLES) - 1)
    if not 0 < tables <= dims.hidden:
        raise config.fail("emb_neighbor_num", "leaves no table to embed n-grams in")
    width = dims.hidden // tables
    rows = sum(int(ratio * dims.vocab + 2 * index + 1) for index in range(tables))
    root = config.prefix + "model.ngram_embeddings."
    return [
        replace(array(f"{root}embedders", rows, width, part=Part.EMBEDDING), split=Split.VOCAB),
        linear(
            f"{root}post_projs.{{layer}}",
            dims.hidden,
            width,
            part=Part.EMBEDDING,
            layers=range(tables),
        ),
    ]


def _mtp(config: Config, dims: Dims, latent: Latent, count: int) -> list[Weight]:
    """Prediction modules: one latent attention and one MLP."""
    if not count:
        return []
    at = config.prefix + "model.mtp.layers.{layer}"
    inner = f"{at}.transformer_layer"
    places = tuple(range(count))
    size = dims.hidden
    return as_mtp(
        [
            linear(f"{at}.eh_proj", size, 2 * size, part=Part.MTP, layers=places),
            *norms(at, size, places, "enorm.m", "hnorm.m"),
            *latent_attention(inner, dims, latent, places),
            *dense_mlp(inner, dims, places),
            *norms(inner, size, places, "input_layernorm", "post_attention_layernorm"),
            vector(config.prefix + "model.mtp.norm", size),
        ]
    )
