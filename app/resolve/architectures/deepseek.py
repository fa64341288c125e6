"""DeepSeek MoE, V2, V3 and R1, and those in their shape: Kimi K2, Moonlight, Mistral Large 3."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import feed_forward, read_moe, sparse_layers
from app.resolve.architectures.common_shape import Dims, attention_part, read_dims, uniform_groups
from app.resolve.architectures.fields import Config
from app.resolve.architectures.llama_like import attention_bias, llama_like
from app.resolve.architectures.mla import mla_decoder, read_latent

HEAD_WIDTHS = ("qk_nope_head_dim", "qk_rope_head_dim")


@family("deepseek", architectures=("DeepseekForCausalLM",))
def deepseek(config: Config) -> ModelShape:
    """Multi-head attention over a mixture with shared experts. Defaults: the model's own code."""
    dims = read_dims(
        config,
        layers=30,
        hidden=4096,
        heads=32,
        intermediate=11008,
        vocab=102400,
        max_positions=2048,
    )
    return _plain(config, dims, width=1407)


@family("deepseek_v2", architectures=("DeepseekV2ForCausalLM",))
def deepseek_v2(config: Config) -> ModelShape:
    """One latent a token in every layer; with head widths of 0 or no latent rank, plain attention
    (DeepSeek-VL2 Tiny, DeepSeek-OCR). Defaults: DeepseekV2Config.
    """
    dims = read_dims(
        config,
        layers=32,
        hidden=4096,
        heads=32,
        head_dim=None if _has_no_latent(config) else 64,
        intermediate=11008,
        vocab=102400,
        max_positions=2048,
    )
    if _has_no_latent(config):
        return _plain(config, dims, width=1407)
    moe = read_moe(config, experts=64, width=1407, shared=2)
    return mla_decoder(
        config,
        dims,
        read_latent(config),
        moe,
        sparse_layers(config, dims.layers),
        corrected=config.text("topk_method") == "noaux_tc",
    )


@family(
    "deepseek_v3",
    "kimi_k2",
    architectures=("DeepseekV3ForCausalLM", "MistralLarge3ForCausalLM"),
)
def deepseek_v3(config: Config) -> ModelShape:
    """One latent a token in every layer, the same on every rank. Defaults: DeepseekV3Config."""
    dims = read_dims(
        config,
        layers=61,
        hidden=7168,
        heads=128,
        head_dim=64,
        intermediate=18432,
        vocab=129280,
        max_positions=4096,
    )
    return mla_decoder(
        config,
        dims,
        read_latent(config),
        read_moe(config, experts=256, top_k=8, width=2048, shared=1),
        sparse_layers(config, dims.layers, first_dense=3),
        mtp=1,
    )


def _has_no_latent(config: Config) -> bool:
    if "kv_lora_rank" in config.data and not config.has("kv_lora_rank"):
        return True
    return all(config.get(name) == 0 for name in HEAD_WIDTHS)


def _plain(config: Config, dims: Dims, *, width: int) -> ModelShape:
    at = config.prefix + "model.layers.{layer}"
    moe = read_moe(config, width=width)
    sparse = sparse_layers(config, dims.layers)
    return llama_like(
        config,
        dims,
        groups=uniform_groups(dims, attention_part(dims)),
        **attention_bias(config),
        mlp=feed_forward(at, dims, moe, sparse, corrected=False),
    )
