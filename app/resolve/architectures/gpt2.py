"""GPT-2 (Cerebras-GPT, GPT-SW3), the first GPT, GPT-Neo and BioGPT: learned positions."""

from dataclasses import replace

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import Dims, read_dims
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.llama_like import EVERY_BIAS, Names, llama_like, position_table

FUSED = ("c_attn", "c_attn", "c_attn", "c_proj")
GPT2 = Names(
    layer="transformer.h.{layer}",
    embed="transformer.wte",
    norm="transformer.ln_f",
    norms=("ln_1", "ln_2"),
    attention="attn",
    qkvo=FUSED,
    mlp=("c_fc", "c_proj"),
)
OPENAI_GPT = replace(GPT2, embed="transformer.tokens_embed", norm="")
GPT_NEO = replace(GPT2, attention="attn.attention", qkvo=("q_proj", "k_proj", "v_proj", "out_proj"))
BIOGPT = Names(
    layer="biogpt.layers.{layer}",
    embed="biogpt.embed_tokens",
    head="output_projection",
    norm="biogpt.layer_norm",
    norms=("self_attn_layer_norm", "final_layer_norm"),
    qkvo=("q_proj", "k_proj", "v_proj", "out_proj"),
    mlp_module="",
    mlp=("fc1", "fc2"),
)


@family(
    "gpt2", "gpt-sw3", "gpt_sw3", architectures=("GPT2LMHeadModel", "GPT2ForSequenceClassification")
)
def gpt2(config: Config) -> ModelShape:
    """Multi-head attention; `n_inner` null means four times the width. Defaults: GPT2Config."""
    dims = gpt2_dims(config)
    return llama_like(
        config,
        dims,
        names=GPT2,
        **EVERY_BIAS,
        extra=[position_table(config, dims, "transformer.wpe")],
    )


def gpt2_dims(config: Config) -> Dims:
    """The sizes, by the defaults of GPT2Config."""
    hidden = config.integer("n_embd", "hidden_size", default=768)
    return read_dims(
        config,
        layers=12,
        hidden=768,
        heads=12,
        intermediate=config.integer("n_inner", default=4 * hidden),
        vocab=50257,
        max_positions=1024,
        tied=True,
    )


@family("openai-gpt", architectures=("OpenAIGPTLMHeadModel",))
def openai_gpt(config: Config) -> ModelShape:
    """Norms after each block, none at the end. Defaults: OpenAIGPTConfig."""
    hidden = config.integer("n_embd", "hidden_size", default=768)
    dims = read_dims(
        config,
        layers=12,
        hidden=768,
        heads=12,
        intermediate=4 * hidden,
        vocab=40478,
        max_positions=512,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=OPENAI_GPT,
        **EVERY_BIAS,
        extra=[position_table(config, dims, "transformer.positions_embed")],
    )


@family("gpt_neo", architectures=("GPTNeoForCausalLM",))
def gpt_neo(config: Config) -> ModelShape:
    """Global and local layers as `attention_types` counts them, [[kinds, repeats], ...]; a local
    layer needs the last `window_size` tokens. Defaults: GPTNeoConfig.
    """
    hidden = config.integer("hidden_size", default=2048)
    dims = read_dims(
        config,
        layers=24,
        hidden=2048,
        heads=16,
        intermediate=4 * hidden,
        vocab=50257,
        max_positions=2048,
        tied=True,
    )
    window = config.integer("window_size", default=256)
    kinds = _attention_kinds(config, dims.layers)
    return llama_like(
        config,
        dims,
        names=GPT_NEO,
        windows=[window if kind == "local" else None for kind in kinds],
        out_bias=True,
        mlp_bias=True,
        norm_bias=True,
        extra=[position_table(config, dims, "transformer.wpe")],
    )


@family("biogpt", architectures=("BioGptForCausalLM",))
def biogpt(config: Config) -> ModelShape:
    """Multi-head attention; two rows more than positions. Defaults: BioGptConfig."""
    dims = read_dims(
        config,
        layers=24,
        hidden=1024,
        heads=16,
        intermediate=4096,
        vocab=42384,
        max_positions=1024,
        tied=True,
    )
    return llama_like(
        config,
        dims,
        names=BIOGPT,
        **EVERY_BIAS,
        extra=[position_table(config, dims, "biogpt.embed_positions", offset=2)],
    )


def _attention_kinds(config: Config, layers: int) -> list[str]:
    listed = config.texts("attention_layers")
    if listed is not None:
        return config.per_layer(listed, "attention_layers", layers)
    runs = config.sequence("attention_types")
    if runs is None:
        runs = [[["global", "local"], (layers + 1) // 2]]
    kinds: list[str] = []
    for run in runs:
        match run:
            case [[*names], int(repeats)] if 0 <= repeats * len(names) <= MAX_LAYERS:
                kinds += names * repeats
            case _:
                raise config.fail("attention_types", "must be a list of [kinds, repeats] pairs")
    return config.per_layer(kinds, "attention_types", layers)
