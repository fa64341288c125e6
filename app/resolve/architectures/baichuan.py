"""Baichuan 1 and 2."""

from app.core.model import ModelShape
from app.resolve.architectures import architecture_names, family
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import Names, llama_like

BAICHUAN = Names(qkvo=("W_pack", "W_pack", "W_pack", "o_proj"))
WIDTH_7B = 4096


@family("baichuan", architectures=("BaichuanForCausalLM", "BaiChuanForCausalLM"))
def baichuan(config: Config) -> ModelShape:
    """Multi-head attention; the 13B models use ALiBi, the 7B ones rotary positions."""
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=64000,
        max_positions=4096,
    )
    first = "BaiChuanForCausalLM" in architecture_names(config)
    alibi = dims.hidden != WIDTH_7B and not first
    return llama_like(config, dims, names=BAICHUAN, traits=("alibi",) if alibi else ())
