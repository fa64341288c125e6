"""Hand-made models and devices for the engine tests: only what a cache depends on."""

from app.core.cache import CachePart, FullAttention, MlaLatent, SlidingWindow
from app.core.hardware import Gpu
from app.core.model import LayerGroup, ModelShape


def model(
    *kinds: tuple[int, CachePart | tuple[CachePart, ...]],
    heads: int = 32,
    model_type: str = "test",
    architecture: str = "TestForCausalLM",
    traits: frozenset[str] = frozenset(),
    drafts: tuple[CachePart, ...] = (),
    quantization: dict[str, object] | None = None,
    max_position_embeddings: int | None = 131_072,
) -> ModelShape:
    """`kinds` are (number of layers, their parts), the layers of each kind one after the other."""
    groups, start = [], 0
    for count, parts in kinds:
        groups.append(
            LayerGroup(
                layers=tuple(range(start, start + count)),
                parts=parts if isinstance(parts, tuple) else (parts,),
                num_attention_heads=heads,
            )
        )
        start += count
    return ModelShape(
        model_type=model_type,
        architecture=architecture,
        num_hidden_layers=start,
        hidden_size=heads * 128,
        vocab_size=32_000,
        num_attention_heads=heads,
        groups=tuple(groups),
        weights=(),
        max_position_embeddings=max_position_embeddings,
        traits=traits,
        quantization=quantization,
        draft_groups=tuple(
            LayerGroup(layers=(index,), parts=(part,)) for index, part in enumerate(drafts)
        ),
    )


def full(kv_heads: int = 8, head_dim: int = 128, v_head_dim: int | None = None) -> FullAttention:
    return FullAttention(
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim if v_head_dim is None else v_head_dim,
    )


def window(size: int, kv_heads: int = 8, head_dim: int = 128) -> SlidingWindow:
    return SlidingWindow(
        num_key_value_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, window=size
    )


def latent() -> MlaLatent:
    return MlaLatent(kv_lora_rank=512, qk_rope_head_dim=64)


def device(capability: tuple[int, int], gigabytes: int, driver_name: str = "NVIDIA test") -> Gpu:
    return Gpu(
        id="test",
        name=driver_name,
        driver_name=driver_name,
        vendor="NVIDIA",
        memory_bytes=gigabytes * 10**9,
        compute_capability=capability,
    )


H100 = device((9, 0), 80, "NVIDIA H100 80GB HBM3")
A100 = device((8, 0), 80, "NVIDIA A100-SXM4-80GB")
B200 = device((10, 0), 180, "NVIDIA B200")
L40S = device((8, 9), 48, "NVIDIA L40S")
RTX_5090 = device((12, 0), 32, "NVIDIA GeForce RTX 5090")
