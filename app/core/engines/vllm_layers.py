"""From a model's cache parts to the specs vLLM 0.33 allocates for its layers.

The `get_kv_cache_spec` methods of the attention layers, of the recurrent layers, and of
DeepSeek-V4's own caches.
"""

from dataclasses import replace

from app.core.cache import (
    CachePart,
    ChunkedLocal,
    CompressedLatent,
    ConvWindow,
    CrossAttention,
    FullAttention,
    MlaLatent,
    RecurrentState,
    SlidingWindow,
    SparseIndexer,
    WindowedLatent,
)
from app.core.engines.vllm_arguments import VllmSettings
from app.core.engines.vllm_blocks import (
    Deployment,
    attention_token_bytes,
    checkpoint_blocks,
    layer_token_bytes,
)
from app.core.engines.vllm_cache_dtype import DS_MLA_TOKEN_BYTES, is_quantised
from app.core.engines.vllm_facts import CachedLayers
from app.core.engines.vllm_specs import Kind, Layers, LayerSpec, merge_equal
from app.errors import InputError

COMPRESSED_PAGE = 576
"""DeepSeek-V4's pages are whole multiples of these bytes, the kernel's stride."""
LOCAL_LATENT_BLOCK = 64
COMPRESSOR_BLOCKS = {8: 4, 128: 8}
"""Window of a compressor's running state: tokens a block (`deepseek_v4/compressor.py`)."""
UNQUANTISED_EDGE = 2
"""Layers at either end that TurboQuant leaves alone, but for hybrid models."""


def layer_specs(
    deployment: Deployment, settings: VllmSettings, cached: CachedLayers
) -> tuple[Layers, ...]:
    """Specs of all layers, equal ones together, in the order the engine registers them."""
    found: list[Layers] = []
    for part, indices in cached:
        for dtype, some in _by_cache_dtype(deployment, indices):
            found.append(Layers(_spec(deployment, settings, part, dtype), some))
    return merge_equal(found)


def _by_cache_dtype(
    deployment: Deployment, indices: tuple[int, ...]
) -> list[tuple[str, tuple[int, ...]]]:
    dtype = deployment.cache_dtype
    if not deployment.spares_edges:
        return [(dtype, indices)]
    total = deployment.shape.num_hidden_layers
    edge = min(UNQUANTISED_EDGE, total // 2)
    inner = tuple(index for index in indices if edge <= index < total - edge)
    outer = tuple(index for index in indices if index not in inner)
    return [(name, some) for name, some in ((dtype, inner), ("auto", outer)) if some]


def _spec(deployment: Deployment, settings: VllmSettings, part: CachePart, dtype: str) -> LayerSpec:
    block = settings.block_size
    if isinstance(part, FullAttention):
        return _attention_spec(deployment, settings, part, dtype)
    if isinstance(part, MlaLatent):
        token = _latent_token_bytes(deployment, part, dtype)
        return LayerSpec(
            kind="mla",
            block_size=block,
            page_bytes=block * token,
            content=("latent", dtype, part.kv_lora_rank, part.qk_rope_head_dim),
        )
    if isinstance(part, SparseIndexer):
        token = part.bytes_per_token(deployment.layout)
        return LayerSpec(
            kind="mla", block_size=block, page_bytes=block * token, content=("index", token)
        )
    if isinstance(part, RecurrentState):
        return _state_spec(deployment, settings, part)
    if isinstance(part, CompressedLatent):
        page = _whole_pages(block // part.compress_ratio * part.entry_bytes)
        return LayerSpec(
            kind="mla",
            block_size=block,
            page_bytes=page,
            content=("compressed", part.compress_ratio, part.entry_bytes),
        )
    if isinstance(part, ConvWindow):
        token = replace(part, width=part.padded_width).bytes_per_token(deployment.layout)
        return LayerSpec(
            kind="window",
            block_size=part.window,
            page_bytes=part.window * token,
            content=("conv", token),
            window=part.window,
            retained=settings.window_lookahead,
        )
    if isinstance(part, WindowedLatent):
        size = COMPRESSOR_BLOCKS.get(part.window, 0) if part.compressor else LOCAL_LATENT_BLOCK
        if size:
            return LayerSpec(
                kind="window_mla",
                block_size=size,
                page_bytes=_whole_pages(size * part.entry_bytes),
                content=("local", part.entry_bytes),
                window=part.window,
                retained=settings.window_lookahead,
            )
    raise InputError.of("engine", f"vLLM does not serve a cache of kind {part.kind!r}")


def _attention_spec(
    deployment: Deployment, settings: VllmSettings, part: FullAttention, dtype: str
) -> LayerSpec:
    token = layer_token_bytes(deployment, part, dtype)
    block = settings.block_size
    content = ("kv", dtype, part.num_key_value_heads, part.head_dim, part.v_head_dim)
    if isinstance(part, SlidingWindow):
        if deployment.decode_context_parallel:
            raise InputError.of(
                "decode_context_parallel_size",
                "vLLM does not offer it for sliding windows",
                type="engine_refuses",
            )
        block = deployment.backend_of(part, dtype).largest_within(block)
        return LayerSpec(
            kind="window",
            block_size=block,
            page_bytes=block * token,
            content=content,
            window=part.window,
            retained=settings.window_lookahead,
        )
    if isinstance(part, ChunkedLocal):
        return LayerSpec(
            kind="chunk",
            block_size=block,
            page_bytes=block * token,
            content=content,
            window=part.chunk,
        )
    kind: Kind = "cross" if isinstance(part, CrossAttention) else "full"
    return LayerSpec(kind=kind, block_size=block, page_bytes=block * token, content=content)


def _latent_token_bytes(deployment: Deployment, part: MlaLatent, dtype: str) -> int:
    packed = DS_MLA_TOKEN_BYTES.get(dtype)
    if packed is not None:
        return packed
    element = 1 if is_quantised(dtype) else deployment.element_bytes
    return (part.kv_lora_rank + part.qk_rope_head_dim) * element


def _state_spec(deployment: Deployment, settings: VllmSettings, part: RecurrentState) -> LayerSpec:
    """One state a block; in a hybrid model padded to the attention layers' page."""
    own = part.fixed_bytes(deployment.layout)
    page, facts = own, deployment.facts
    if facts.attention or facts.latents:
        page = max(own, settings.block_size * attention_token_bytes(deployment))
    drafted = settings.num_speculative_tokens
    if settings.mamba_cache_mode == "align":
        size, blocks = settings.block_size, 2 + drafted + checkpoint_blocks(deployment)
    else:
        size, blocks = settings.max_model_len, 1 + drafted
    return LayerSpec(
        kind="state",
        block_size=size,
        page_bytes=page,
        content=(part,),
        fixed_blocks=blocks,
        padded=page != own,
    )


def _whole_pages(content: int) -> int:
    return -(-content // COMPRESSED_PAGE) * COMPRESSED_PAGE
