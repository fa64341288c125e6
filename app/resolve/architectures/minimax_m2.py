"""MiniMax-M2 to M2.7: grouped-query attention over a mixture in every layer."""

from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_moe import EXPERTS, TOP_K, Moe
from app.resolve.architectures.common_shape import read_dims
from app.resolve.architectures.fields import Config
from app.resolve.architectures.gqa_moe import moe_decoder


@family("minimax_m2", architectures=("MiniMaxM2ForCausalLM",))
def minimax_m2(config: Config) -> ModelShape:
    """K and V of every token in every layer; queries and keys are normed over their full width.
    The prediction modules that configs mention were never published. Defaults: MiniMaxM2Config.
    """
    dims = read_dims(
        config,
        layers=62,
        hidden=3072,
        heads=48,
        kv_heads=8,
        head_dim=128,
        intermediate=1536,
        vocab=200064,
        max_positions=196608,
    )
    moe = Moe(
        num_experts=config.integer(*EXPERTS, default=256),
        top_k=config.integer(*TOP_K, default=8),
        width=dims.intermediate,
    )
    return moe_decoder(
        config,
        dims,
        moe,
        [True] * dims.layers,
        qk_norm=(dims.heads * dims.head_dim, dims.kv_heads * dims.head_dim),
        module="block_sparse_moe",
        expert_names=("w1", "w3", "w2"),
        correction_name="block_sparse_moe.e_score_correction_bias",
    )
