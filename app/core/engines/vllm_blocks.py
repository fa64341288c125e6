"""Attention backends of a model and the block size that vLLM 0.33 settles on.

`platforms/interface.py`, `update_block_size_for_backend`: a size every backend accepts; with
recurrent states, one whose attention page is at least as large as a state's.
"""

from dataclasses import dataclass
from itertools import product
from math import ceil, lcm

from app.core.cache import CacheLayout, CrossAttention, FullAttention, MlaLatent, SlidingWindow
from app.core.engines.vllm_backends import (
    Backend,
    LatentQuery,
    Query,
    attention_backend,
    latent_backend,
    sparse_latent_backend,
)
from app.core.engines.vllm_cache_dtype import TURBOQUANT, head_token_bytes, is_quantised
from app.core.engines.vllm_facts import Facts
from app.core.model import ModelShape
from app.core.parallel import kv_heads_per_rank
from app.core.recurrent import GatedDeltaState, KimiDeltaState, Mamba2State
from app.errors import InputError

DEFAULT_BLOCK_SIZE = 16
LATENT_ALIGNMENT = 128
"""Tokens that hybrid models with latent attention align blocks to."""
DELTA_CHECKPOINT_ALIGNMENT = 64
"""Tokens between states that FlashInfer's delta-net prefill can export."""
UNEXPORTED = frozenset({"olmo_hybrid"})
"""Model types whose delta-net class exports no states inside a prefill."""
EXPORTING_KIMI = frozenset({"kimi_k3", "glm5_next"})
"""Model types whose Kimi delta attention runs FlashKDA, which exports them."""
INDEXER = Backend("DEEPSEEK_V32_INDEXER", (64,), any_multiple=False)
MINIMAX_SPARSE = Backend("MINIMAX_M3_SPARSE", (128,), any_multiple=False)
COMPRESSED = Backend("DEEPSEEK_V4", (256,), any_multiple=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """How the model runs, as far as layers depend on it. `cache_dtype` is what the backends make
    of it; `block_size` is what the caller asked for until `resolve` has settled it.
    """

    shape: ModelShape
    facts: Facts
    capability: tuple[int, int]
    tensor_parallel_size: int
    decode_context_parallel: bool
    cache_dtype: str
    block_size: int | None
    align_states: bool
    num_speculative_tokens: int
    exports_states: bool = True

    @property
    def layout(self) -> CacheLayout:
        """For the parts whose bytes the cache type does not change."""
        return CacheLayout(
            tensor_parallel_size=self.tensor_parallel_size,
            attention_dtype=self.shape.dtype,
            model_dtype=self.shape.dtype,
            num_speculative_tokens=self.num_speculative_tokens,
        )

    @property
    def spares_edges(self) -> bool:
        """Whether TurboQuant leaves the outermost layers unquantised: all but hybrid models'."""
        return self.cache_dtype in TURBOQUANT and not self.facts.is_hybrid

    @property
    def element_bytes(self) -> int:
        """Bytes of one number in the model's own precision."""
        return ceil(self.shape.dtype.bytes_per_element)

    def backend_of(self, part: FullAttention, cache_dtype: str | None = None) -> Backend:
        """The backend of one kind of attention layer."""
        facts = self.facts
        return attention_backend(
            Query(
                capability=self.capability,
                cache_dtype=cache_dtype or self.cache_dtype,
                head_dim=part.head_dim,
                v_head_dim=part.v_head_dim,
                model_head_dim=facts.head_dim,
                block_size=self.block_size,
                role="cross" if isinstance(part, CrossAttention) else "decoder",
                alibi=facts.alibi,
                sinks=facts.sinks,
                prefix_lm=facts.prefix_lm,
                windowed=isinstance(part, SlidingWindow),
                non_causal=facts.diffusion,
                mixed_head_dims=facts.mixed_head_dims,
                decode_context_parallel=self.decode_context_parallel,
            )
        )


def check_encoder_only(deployment: Deployment) -> None:
    """A model that caches nothing still needs a backend that takes the cache type."""
    shape = deployment.shape
    if not shape.num_attention_heads:
        return
    width = shape.hidden_size // shape.num_attention_heads
    attention_backend(
        Query(
            capability=deployment.capability,
            cache_dtype=deployment.cache_dtype,
            head_dim=width,
            v_head_dim=width,
            model_head_dim=width,
            role="encoder_only",
        )
    )


def resolve_backends(deployment: Deployment) -> tuple[tuple[Backend, ...], str]:
    """The distinct backends in layer order, and the cache type as they store it."""
    facts, dtype = deployment.facts, deployment.cache_dtype
    found: list[Backend] = []
    if facts.compressed:
        return (COMPRESSED,), dtype
    for part, _ in facts.layers:
        if isinstance(part, FullAttention):
            if deployment.spares_edges:
                found.append(_edge_backend(deployment, part))
            found.append(deployment.backend_of(part))
        elif isinstance(part, MlaLatent):
            backend, dtype = _latent(deployment, part, dtype)
            found.append(backend)
    if facts.sparse:
        found.append(INDEXER)
    if facts.index_keys_in_model_dtype:
        found.append(MINIMAX_SPARSE)
    return tuple(dict.fromkeys(found)), dtype


def _edge_backend(deployment: Deployment, part: FullAttention) -> Backend:
    """The backend of the outermost layers, which TurboQuant leaves unquantised."""
    backend = deployment.backend_of(part, "auto")
    if backend.name == "FLASHINFER":
        raise InputError.of(
            "kv_cache_dtype",
            f"{deployment.cache_dtype} shares no cache layout with FlashInfer, which vLLM takes "
            "for the outermost layers on this device",
            type="engine_refuses",
        )
    return backend


def _latent(deployment: Deployment, part: MlaLatent, dtype: str) -> tuple[Backend, str]:
    query = LatentQuery(
        capability=deployment.capability,
        cache_dtype=dtype,
        head_size=part.kv_lora_rank + part.qk_rope_head_dim,
        qk_nope_head_dim=part.qk_nope_head_dim,
        heads_per_rank=deployment.shape.num_attention_heads // deployment.tensor_parallel_size,
        block_size=deployment.block_size,
        sinks=deployment.facts.sinks,
        decode_context_parallel=deployment.decode_context_parallel,
    )
    if deployment.facts.sparse:
        return sparse_latent_backend(query)
    return latent_backend(query), dtype


def settle_block_size(deployment: Deployment, backends: tuple[Backend, ...]) -> int:
    """Tokens a block of the attention layers. What the caller asks for, backends were chosen by;
    those that a model brings itself are not asked.
    """
    if not backends:
        return deployment.block_size or DEFAULT_BLOCK_SIZE
    block_size = deployment.block_size or _common_size(backends)
    if deployment.facts.is_hybrid:
        return max(block_size, _hybrid_size(deployment, backends, block_size))
    if deployment.spares_edges:
        return max(block_size, _mixed_precision_size(deployment, block_size))
    return block_size


def _common_size(backends: tuple[Backend, ...]) -> int:
    """16 where all accept it, else the smallest that can be made of one size of each."""
    if all(backend.accepts(DEFAULT_BLOCK_SIZE) for backend in backends):
        return DEFAULT_BLOCK_SIZE
    choices = {lcm(*sizes) for sizes in product(*(b.block_sizes for b in backends))}
    return min(size for size in choices if all(b.accepts(size) for b in backends))


def _hybrid_size(deployment: Deployment, backends: tuple[Backend, ...], block_size: int) -> int:
    """The fewest aligned tokens whose attention page covers one layer's state."""
    facts = deployment.facts
    state = max(part.fixed_bytes(deployment.layout) for part in facts.states)
    alignment = max(min(backends[0].block_sizes), block_size)
    if facts.latents:
        alignment = max(alignment, LATENT_ALIGNMENT)
    if deployment.align_states and exports_delta_states(deployment):
        alignment = lcm(alignment, DELTA_CHECKPOINT_ALIGNMENT)
    tokens = alignment * ceil(state / (alignment * attention_token_bytes(deployment)))
    common = lcm(*(min(backend.block_sizes) for backend in backends))
    return common * ceil(tokens / common)


def attention_token_bytes(deployment: Deployment) -> int:
    """Bytes one token takes in one attention layer of a hybrid model."""
    facts = deployment.facts
    if facts.latents:
        part = facts.latents[0]
        element = 1 if is_quantised(deployment.cache_dtype) else deployment.element_bytes
        return (part.kv_lora_rank + part.qk_rope_head_dim) * element
    return layer_token_bytes(deployment, facts.attention[0], deployment.cache_dtype)


def layer_token_bytes(deployment: Deployment, part: FullAttention, cache_dtype: str) -> int:
    """Bytes one token takes in one layer of ordinary attention on one rank."""
    heads = kv_heads_per_rank(part.num_key_value_heads, deployment.tensor_parallel_size)
    element = deployment.element_bytes
    return heads * head_token_bytes(cache_dtype, part.head_dim, part.v_head_dim, element)


def _mixed_precision_size(deployment: Deployment, block_size: int) -> int:
    """A page of one byte a number has to cover 16 tokens of the unquantised layers: packing is not
    looked at, since the first layer's backend does not pack (`_align_heterogeneous_kv_block_size`).
    """
    part = deployment.facts.attention[0]
    bytes_ = layer_token_bytes(deployment, part, "fp8")
    plain = layer_token_bytes(deployment, part, "auto")
    return block_size * ceil(plain * DEFAULT_BLOCK_SIZE / (block_size * bytes_))


def exports_delta_states(deployment: Deployment) -> bool:
    """Whether gated delta nets export states inside a prefill: FlashInfer's kernel on Hopper, and
    on Blackwell for keys of 128.
    """
    nets = [part for part in deployment.facts.states if isinstance(part, GatedDeltaState)]
    if not nets or deployment.shape.model_type in UNEXPORTED or not deployment.exports_states:
        return False
    major = deployment.capability[0]
    return deployment.capability == (9, 0) or (major in (10, 12) and nets[0].key_head_dim == 128)


def checkpoint_blocks(deployment: Deployment) -> int:
    """Blocks a request needs beside its running states for one exported inside a prefill."""
    states = deployment.facts.states
    if not deployment.exports_states:
        return 0
    if any(isinstance(part, Mamba2State) for part in states):
        return 1
    kimi = next((part for part in states if isinstance(part, KimiDeltaState)), None)
    if kimi is not None:
        flash_kda = (
            deployment.shape.model_type in EXPORTING_KIMI
            and deployment.capability[0] in (9, 10, 12)
            and kimi.head_dim == 128
            and deployment.shape.dtype.name == "bfloat16"
        )
        return int(flash_kda)
    return int(exports_delta_states(deployment))
