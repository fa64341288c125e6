"""Gemma 1, 2 and 3 (text), VaultGemma, Rnj-1 and the text-only EmbeddingGemma."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import (
    ENCODER_ONLY,
    Names,
    attention_bias,
    every_nth_full,
    layer_windows,
    llama_like,
    uncached,
    window_size,
)

SANDWICH = Names(
    norms=(
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
)
VAULT = Names(norms=("input_layernorm", "pre_feedforward_layernorm"))


@family("gemma", architectures=("GemmaForCausalLM",))
def gemma(config: Config) -> ModelShape:
    """Full attention with heads of 256, a tied head. Defaults: GemmaConfig."""
    dims = read_dims(
        config,
        layers=28,
        hidden=3072,
        heads=16,
        kv_heads=16,
        head_dim=256,
        intermediate=24576,
        vocab=256000,
        max_positions=8192,
        tied=True,
    )
    return llama_like(config, dims, **attention_bias(config))


@family("gemma2", architectures=("Gemma2ForCausalLM", "Gemma2Model"))
def gemma2(config: Config) -> ModelShape:
    """Windowed and full layers in turn, the first windowed. Defaults: Gemma2Config."""
    return _alternating(config, SANDWICH)


@family("vaultgemma", architectures=("VaultGemmaForCausalLM",))
def vaultgemma(config: Config) -> ModelShape:
    """Gemma 2 with two norms a layer. Defaults: VaultGemmaConfig."""
    return _alternating(config, VAULT)


@family("rnj1", architectures=("Rnj1ForCausalLM",))
def rnj1(config: Config) -> ModelShape:
    """Gemma 3 whose local layers ("chunked_attention") attend to this chunk and the one before:
    the engine keeps `sliding_window` tokens. Defaults: those of Gemma3TextConfig.
    """
    kinds = config.texts("layer_types")
    if kinds is not None:
        local = ["sliding_attention" if kind == "chunked_attention" else kind for kind in kinds]
        config = config.overlay(layer_types=local)
    return gemma3_text(config)


@family("gemma3_text", architectures=("Gemma3ForCausalLM", "Gemma3TextModel"))
def gemma3_text(config: Config) -> ModelShape:
    """Five windowed layers, then a full one. Defaults: Gemma3TextConfig.

    Where attention is bidirectional (EmbeddingGemma) nothing is cached.
    """
    dims = gemma2_dims(config, vocab=262208, max_positions=131072)
    period = config.integer("sliding_window_pattern", default=6)
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=4096),
        default=every_nth_full(dims.layers, period),
    )
    bidirectional = config.boolean("use_bidirectional_attention", default=False)
    return llama_like(
        config,
        dims,
        names=SANDWICH,
        windows=windows,
        groups=uncached(dims) if bidirectional else None,
        traits=(ENCODER_ONLY,) if bidirectional else (),
        **attention_bias(config),
        qk_norm=(dims.head_dim, dims.head_dim),
    )


def _alternating(config: Config, names: Names) -> ModelShape:
    dims = gemma2_dims(config)
    windows = layer_windows(
        config,
        dims.layers,
        window_size(config, default=4096),
        default=every_nth_full(dims.layers, 2),
    )
    return llama_like(config, dims, names=names, windows=windows, **attention_bias(config))


def gemma2_dims(config: Config, *, vocab: int = 256000, max_positions: int = 8192) -> Dims:
    """The sizes, by the defaults of Gemma2Config; later classes change the last two."""
    return read_dims(
        config,
        layers=26,
        hidden=2304,
        heads=8,
        kv_heads=4,
        head_dim=256,
        intermediate=9216,
        vocab=vocab,
        max_positions=max_positions,
        tied=True,
    )
