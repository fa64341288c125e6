"""Dots 3 Note: latent attention with an indexer in some layers, in a window in the others."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar

from app.core.cache import CacheLayout, CachePart
from app.core.inventory import Part, Split, Weight
from app.core.model import ModelShape
from app.resolve.architectures import build, family
from app.resolve.architectures.blocks_moe import (
    drafts,
    feed_forward,
    mtp_layers,
    mtp_module,
    read_moe,
    sparse_layers,
)
from app.resolve.architectures.common_shape import Dims, group_layers, model_shape, read_dims
from app.resolve.architectures.common_weights import linear, norms, vector, vocabulary
from app.resolve.architectures.dots3_note_towers import hearing, sight
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import dense_mlp
from app.resolve.architectures.mla import (
    Indexer,
    Latent,
    indexer_weights,
    latent_attention,
    latent_part,
    read_latent,
)
from app.resolve.architectures.multimodal import filled, multimodal, text_model

FULL, INDEXED, SLIDING = "full_attention", "indexed_attention", "sliding_attention"
NORMS = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentWindow(CachePart):
    """The latents (and rotary keys) of the last `window` tokens, the same on every rank."""

    kind: ClassVar[str] = "latent_window"
    window: int
    width: int

    def bytes_per_token(self, layout: CacheLayout) -> int:
        """The width x bytes an element."""
        return ceil(self.width * layout.attention_dtype.bytes_per_element)

    @property
    def limit(self) -> int | None:
        """The window."""
        return self.window


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """Attention in a window: its own heads and sizes."""

    heads: int
    latent: Latent
    window: int


@family("dots3_note_text")
def dots3_note_text(config: Config) -> ModelShape:
    """Full layers (the first two, then each fourth) keep a latent and an 8-bit index key, the others
    wider latents in a window. Published configs give the window's sizes as `swa_*`. Defaults:
    Dots3NoteTextConfig.
    """
    dims = read_dims(
        config,
        layers=46,
        hidden=5120,
        heads=128,
        head_dim=256,
        intermediate=13824,
        vocab=152064,
        max_positions=524288,
    )
    latent = read_latent(config, q=1024)
    indexer = Indexer(
        heads=config.integer("index_n_heads", default=64),
        head_dim=config.integer("index_head_dim", default=128),
    )
    kinds = _kinds(config, dims.layers)
    local = _local(config, kinds)
    moe = read_moe(config, experts=256, top_k=8, width=1536)
    shared = config.integer("n_shared_experts", default=1, minimum=0, maximum=4096)
    width = config.integer(
        "shared_experts_intermediate_size", "moe_shared_expert_intermediate_size", default=1536
    )
    window = LatentWindow(
        window=local.window, width=local.latent.kv_lora_rank + local.latent.qk_rope_head_dim
    )
    parts: dict[str, tuple[CachePart, ...]] = {
        SLIDING: (window,),
        INDEXED: (latent_part(latent), indexer.part),
        FULL: (latent_part(latent),),
    }
    at = config.prefix + "model.layers.{layer}"
    modules = mtp_layers(config, dims)
    windowed = _where(kinds, SLIDING)
    full = _where(kinds, INDEXED, FULL)
    heads = [local.heads if kind == SLIDING else dims.heads for kind in kinds]
    block = [
        *_attention(at, replace(dims, heads=local.heads), local.latent, modules),
        *dense_mlp(at, dims, modules),
        *norms(at, dims.hidden, modules, *NORMS),
        Weight(name=f"{at}.embed_tokens", shape=(dims.vocab, dims.hidden), part=Part.MTP),
    ]
    return model_shape(
        config,
        dims,
        groups=group_layers([parts[kind] for kind in kinds], heads),
        weights=[
            *vocabulary(dims, prefix=config.prefix),
            *_attention(at, dims, latent, full),
            *indexer_weights(at, dims, latent, indexer, _where(kinds, INDEXED)),
            *_attention(at, replace(dims, heads=local.heads), local.latent, windowed),
            *feed_forward(
                at,
                dims,
                replace(moe, shared_width=shared * width),
                sparse_layers(config, dims.layers, first_dense=1),
            ),
            *norms(at, dims.hidden, dims.all_layers, *NORMS),
            vector(config.prefix + "model.norm", dims.hidden),
            *mtp_module(at, dims, modules, block, vocabulary=False),
        ],
        traits=("sparse_attention",),
        draft_groups=drafts(modules, local.heads, window),
    )


def _where(kinds: Sequence[str], *wanted: str) -> tuple[int, ...]:
    return tuple(index for index, kind in enumerate(kinds) if kind in wanted)


def _kinds(config: Config, layers: int) -> list[str]:
    """Published files call layers with an indexer full as well (`use_dsa`)."""
    sparse = config.boolean("use_dsa", default=not config.has("per_layer_config"))
    stated = config.texts("layer_types")
    if stated is None:
        slides = config.boolean("use_sliding_window", default=True)
        return [
            SLIDING if slides and i > 1 and i % 4 != 1 else INDEXED if sparse else FULL
            for i in range(layers)
        ]
    kinds = config.per_layer(stated, "layer_types", layers)
    if unknown := set(kinds).difference((SLIDING, INDEXED, FULL)):
        raise config.fail("layer_types", f"has kinds this family does not know: {sorted(unknown)}")
    return [INDEXED if kind == FULL and sparse else kind for kind in kinds]


def _local(config: Config, kinds: Sequence[str]) -> Local:
    """The window's sizes: `swa_*`, or those that `per_layer_config` gives its first layer."""
    own = config.section("per_layer_config")
    first = next((str(i) for i in _where(kinds, SLIDING) if own.has(str(i))), None)
    sizes = config if first is None else own.section(first)
    mark = "swa_" if first is None else ""
    nope = sizes.integer(f"{mark}qk_nope_head_dim", default=192)
    dim = sizes.integer(f"{mark}head_dim", default=256, minimum=nope + 1)
    return Local(
        heads=sizes.integer(f"{mark}num_attention_heads", default=64),
        latent=Latent(
            q_lora_rank=sizes.integer(f"{mark}q_lora_rank", default=1024),
            kv_lora_rank=sizes.integer(f"{mark}kv_lora_rank", default=1024),
            qk_nope_head_dim=nope,
            qk_rope_head_dim=sizes.integer(f"{mark}qk_rope_head_dim", default=dim - nope),
            v_head_dim=sizes.integer(f"{mark}v_head_dim", default=128),
        ),
        window=config.integer("sliding_window", "sliding_window_size", default=512),
    )


def _attention(at: str, dims: Dims, latent: Latent, layers: Sequence[int]) -> list[Weight]:
    """Latent attention with a norm on the rotary key and a gate a head."""
    if not layers:
        return []
    inside = f"{at}.self_attn"
    gate: dict[str, Any] = {"part": Part.ATTENTION, "layers": layers, "split": Split.COLUMN}
    return [
        *latent_attention(at, dims, latent, layers),
        vector(f"{inside}.k_rope_only_layernorm", latent.qk_rope_head_dim, layers=layers),
        linear(f"{inside}.g_proj", dims.heads, dims.hidden, **gate),
    ]


@family(
    "dots3_note",
    architectures=(
        "Dots3NoteForCausalLM",
        "Dot3NoteForCausalLM",
        "Dots3NoteForConditionalGeneration",
    ),
)
def dots3_note(config: Config) -> ModelShape:
    """The text model's cache; published configs have its keys at the top, and one prediction module
    that no key mentions. Defaults: Dots3NoteConfig.
    """
    if config.has("text_config"):
        text = text_model(
            config, prefix="model.language_", model_type="dots3_note_text", tied=False, force=True
        )
    else:
        stated = {"num_nextn_predict_layers": 1} | dict(config.data)
        flat = Config(stated, path=config.path, prefix=config.prefix)
        text = build(filled(flat, model_type="dots3_note_text", force=True))
    weights = [
        *sight(config.section("vision_config"), "vision_encoder", text.hidden_size),
        *hearing(config.section("audio_config"), "audio_encoder", text.hidden_size),
    ]
    return multimodal(config, text, weights, tower_heads=24)
