"""Mamba, Falcon-Mamba and Mamba 2: state space models without any attention."""

from app.core.model import LayerGroup, ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_state import Mamba1, Mamba2, dt_rank
from app.resolve.architectures.common_shape import HIDDEN, LAYERS, Dims, model_shape
from app.resolve.architectures.common_weights import norms, vector, vocabulary
from app.resolve.architectures.fields import MAX_LAYERS, Config
from app.resolve.architectures.hybrid import HYBRID

ATTENTION_FREE = "attention_free"


@family("mamba", "falcon_mamba", architectures=("MambaForCausalLM", "FalconMambaForCausalLM"))
def mamba(config: Config) -> ModelShape:
    """A convolution's tail and a state a layer, in the model's precision. A stated width wins over
    `expand` (Falcon-Mamba 7B states both, and they differ). Defaults: MambaConfig; Falcon's norms
    on the time step, B and C have no weights.
    """
    dims = _dims(config, layers=32, hidden=768, vocab=50280, tied=True)
    inner = config.optional_integer("intermediate_size")
    inner = inner or config.integer("expand", default=2) * dims.hidden
    bias = config.boolean("use_bias", default=False)
    mixer = Mamba1(
        hidden=dims.hidden,
        inner=inner,
        state=config.integer("state_size", default=16),
        kernel=config.integer("conv_kernel", default=4),
        dt_rank=dt_rank(config, "time_step_rank", dims.hidden),
        bias=bias,
        conv_bias=config.boolean("use_conv_bias", default=True),
    )
    return _attention_free(config, dims, mixer)


@family("mamba2", architectures=("Mamba2ForCausalLM",))
def mamba2(config: Config) -> ModelShape:
    """As Mamba, with heads and groups. Defaults: Mamba2Config."""
    dims = _dims(config, layers=64, hidden=4096, vocab=32768, tied=False)
    bias = config.boolean("use_bias", default=False)
    mixer = Mamba2(
        hidden=dims.hidden,
        heads=config.integer("num_heads", default=128),
        head_dim=config.integer("head_dim", default=64),
        groups=config.integer("n_groups", default=8),
        state=config.integer("state_size", default=128),
        kernel=config.integer("conv_kernel", default=4),
        bias=bias,
        out_bias=bias,
        conv_bias=config.boolean("use_conv_bias", default=True),
    )
    if mixer.inner != config.integer("expand", default=2) * dims.hidden:
        raise config.fail("num_heads", f"times head_dim makes {mixer.inner}, not expand x hidden")
    return _attention_free(config, dims, mixer)


def _dims(config: Config, *, layers: int, hidden: int, vocab: int, tied: bool) -> Dims:
    return Dims(
        layers=config.integer(*LAYERS, default=layers, maximum=MAX_LAYERS),
        hidden=config.integer(*HIDDEN, default=hidden),
        heads=0,
        kv_heads=0,
        head_dim=0,
        intermediate=0,
        vocab=config.integer("vocab_size", default=vocab),
        max_positions=None,
        tied=config.boolean("tie_word_embeddings", default=tied),
    )


def _attention_free(config: Config, dims: Dims, mixer: Mamba1 | Mamba2) -> ModelShape:
    at = config.prefix + "backbone.layers.{layer}"
    layers = dims.all_layers
    return model_shape(
        config,
        dims,
        groups=(LayerGroup(layers=layers, parts=(mixer.part(),)),),
        weights=[
            *vocabulary(dims, prefix=config.prefix, embed="backbone.embeddings"),
            *mixer.weights(f"{at}.mixer", layers),
            *norms(at, dims.hidden, layers, "norm"),
            vector(config.prefix + "backbone.norm_f", dims.hidden),
        ],
        traits=(HYBRID, ATTENTION_FREE),
    )
