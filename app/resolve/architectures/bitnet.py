"""BitNet b1.58."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.common_weights import vector
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import LLAMA, attention_bias, llama_like


@family("bitnet", architectures=("BitNetForCausalLM", "BitnetForCausalLM"))
def bitnet(config: Config) -> ModelShape:
    """Full attention, a norm before each output projection. Defaults: BitNetConfig."""
    dims = read_dims(
        config,
        layers=30,
        hidden=2560,
        heads=20,
        kv_heads=5,
        intermediate=6912,
        vocab=128256,
        max_positions=2048,
    )
    at = LLAMA.at(config)
    return llama_like(
        config,
        dims,
        **attention_bias(config),
        extra=[
            vector(f"{at}.self_attn.attn_sub_norm", dims.hidden, layers=dims.all_layers),
            vector(f"{at}.mlp.ffn_sub_norm", dims.intermediate, layers=dims.all_layers),
        ],
    )
