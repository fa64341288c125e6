"""vLLM 0.33's settings where the caller states none: by GPU, entry point and kind of model.

Read in `engine/arg_utils.py` (`get_batch_defaults` and after), `config/vllm.py` and
`model_executor/models/config.py`.
"""

from math import ceil
from typing import Literal

from app.core.engines.budgets import GIB
from app.core.engines.vllm_arguments import VllmArguments
from app.core.engines.vllm_cache_dtype import (
    checkpoint_cache_dtype,
    requested_cache_dtype,
    stores_cache_scales,
)
from app.core.engines.vllm_facts import Facts
from app.core.engines.vllm_rules import VllmRules
from app.core.hardware import Gpu
from app.core.model import ModelShape
from app.errors import InputError

VOCAB_PADDING = 64
UNSTATED_LENGTH = 2048
"""`max_model_len` of a config that says nothing of lengths (`config/model.py`)."""
DIFFUSION_MAX_NUM_SEQS = 8
GB10 = (12, 1)
"""A device whose memory NVML does not report, which the engine then takes for none
(`get_batch_defaults`, vLLM pull request 57378); from 0.32 on it is left out by its capability.
"""
FIRST_MAX_NUM_SEQS = 256
FIRST_LONG_CONTEXT = 32768
FIRST_CHUNK = 2048
MODEL_FREE_METHODS = ("ngram", "suffix")
"""Speculation without a draft model: it adds no layers."""
DRAFTING_METHODS = (
    "draft_model",
    "eagle",
    "eagle3",
    "medusa",
    "mlp_speculator",
    "dflash",
    "dspark",
    "ngram_gpu",
    "extract_hidden_states",
    "custom_class",
)
"""Speculation with layers that are not the model's own."""


def check_parallel(shape: ModelShape, arguments: VllmArguments, facts: Facts) -> None:
    """The engine's own demands on parallel sizes, before any layer is built."""
    tp = arguments.tensor_parallel_size
    heads = shape.num_attention_heads
    if heads % tp:
        raise _refuse(
            "tensor_parallel_size",
            f"the {heads} attention heads are not divisible by tensor_parallel_size {tp}",
            type="not_divisible",
        )
    padded = ceil(shape.vocab_size / VOCAB_PADDING) * VOCAB_PADDING
    for width, module in (*facts.split_widths, (padded, "padded vocabulary")):
        if width % tp:
            raise _refuse(
                "tensor_parallel_size",
                f"the {width} of {module} is not divisible by tensor_parallel_size {tp}",
                type="not_divisible",
            )
    dcp = arguments.decode_context_parallel_size
    if dcp > 1:
        _check_decode_context(shape, tp, dcp, facts)


def _check_decode_context(shape: ModelShape, tp: int, dcp: int, facts: Facts) -> None:
    field = "decode_context_parallel_size"
    if tp % dcp:
        raise _refuse(field, f"tensor_parallel_size {tp} is not divisible by {dcp}")
    if facts.compressed:
        raise _refuse(field, "vLLM does not offer it for sliding windows, which this model has")
    if facts.latents or not facts.attention:
        return
    kv_heads = facts.attention[0].num_key_value_heads
    if tp <= kv_heads or dcp > tp // kv_heads:
        raise _refuse(
            field,
            f"must be at most tensor_parallel_size / KV heads ({tp} / {kv_heads}), since it "
            "spreads only what tensor parallelism would replicate",
        )
    if shape.num_attention_heads // kv_heads % dcp:
        raise _refuse(field, f"{dcp} does not divide the query heads of a KV head")


def batch_limits(
    facts: Facts, arguments: VllmArguments, gpu: Gpu, max_model_len: int, rules: VllmRules
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs).

    Tiers by device memory, A100 and GB10 kept on the small one; without chunked prefill (encoder-
    decoders) a batch holds a whole sequence, and with bidirectional image tokens a whole item.
    """
    if rules.core == "v0":
        return _first_limits(facts, arguments, max_model_len)
    api_tokens, class_tokens, seqs = _tier(gpu, rules)
    default = api_tokens if arguments.entry_point == "api_server" else class_tokens
    max_num_seqs = arguments.max_num_seqs or seqs
    tokens = arguments.max_num_batched_tokens
    if tokens is None:
        tokens = max(default, max_model_len) if facts.encoder_decoder else default
        tokens = min(max_num_seqs * max_model_len, max(tokens, facts.max_item_tokens))
    if arguments.max_num_seqs is None:
        max_num_seqs = min(max_num_seqs, tokens)
        if facts.diffusion:
            max_num_seqs = min(max_num_seqs, DIFFUSION_MAX_NUM_SEQS)
    return tokens, max_num_seqs


def _tier(gpu: Gpu, rules: VllmRules) -> tuple[int, int, int]:
    """Default tokens a batch (API server, Python class) and sequences."""
    memory = gpu.visible_memory_bytes
    if memory >= 160 * GIB and rules.tiers == "160":
        return 16384, 16384, 1024
    name = f"{gpu.driver_name or ''} {gpu.name} {gpu.id}".lower()
    small = gpu.compute_capability == GB10 or ("a100" in name and rules.tiers != "70")
    return (8192, 16384, 1024) if memory >= 70 * GIB and not small else (2048, 8192, 256)


def _first_limits(facts: Facts, arguments: VllmArguments, max_model_len: int) -> tuple[int, int]:
    """V0: a batch is as long as a sequence, unless long sequences are prefilled in chunks."""
    seqs = arguments.max_num_seqs or FIRST_MAX_NUM_SEQS
    tokens = arguments.max_num_batched_tokens
    if tokens is None:
        chunked = max_model_len > FIRST_LONG_CONTEXT and not facts.latents
        tokens = FIRST_CHUNK if chunked else max(max_model_len, FIRST_CHUNK)
    return tokens, seqs


def concurrent_batches(facts: Facts, arguments: VllmArguments, rules: VllmRules) -> int:
    """Steps whose tokens windows hold: one a pipeline stage, and one more with asynchronous
    scheduling, which is on but for pooling models and suffix speculation. Before 0.26 only one.
    """
    if not rules.steps_in_flight:
        return 1
    stages = arguments.pipeline_parallel_size
    if facts.pooling or arguments.speculative_method == "suffix":
        return stages
    return stages + 1


def prefix_caching(facts: Facts, arguments: VllmArguments, rules: VllmRules) -> bool:
    """On by default where the engine supports it: not without attention, not with an encoder, and
    with states only in newer versions.
    """
    if arguments.enable_prefix_caching is not None:
        return arguments.enable_prefix_caching
    if facts.is_hybrid and not rules.caches_hybrids:
        return False
    encodes = facts.encoder_decoder or (facts.pooling and not facts.layers)
    return not facts.attention_free and not encodes


def state_cache_mode(facts: Facts, *, prefix_caching_enabled: bool) -> Literal["none", "align"]:
    """`align` where prefix caching keeps recurrent states at block boundaries."""
    return "align" if facts.states and prefix_caching_enabled else "none"


def cache_dtype(
    shape: ModelShape, facts: Facts, arguments: VllmArguments, capability: tuple[int, int]
) -> str:
    """The cache type as far as model and checkpoint decide it; backends may still repack it."""
    asked = requested_cache_dtype(arguments.kv_cache_dtype)
    name = _automatic(shape, facts, capability) if asked == "auto" else asked
    if facts.compressed:
        if name == "auto" or name.startswith("fp8"):
            return "fp8_ds_mla"
        raise _refuse("kv_cache_dtype", f"this model's compressed cache is fp8 only, not {name}")
    if name in ("float16", "bfloat16"):
        if name != shape.dtype.name:
            raise _refuse(
                "kv_cache_dtype",
                f"vLLM keeps an unquantised cache in the model's own precision "
                f"({shape.dtype.name}), not in {name}: use auto",
            )
        return "auto"
    if name == "fp8_e5m2" and stores_cache_scales(shape):
        raise _refuse("kv_cache_dtype", "fp8_e5m2 is not offered for fp8 checkpoints")
    if "ds_mla" in name and not facts.sparse:
        raise _refuse("kv_cache_dtype", f"{name} is a layout of sparse latent attention only")
    return "auto" if facts.ignores_cache_dtype else name


def _automatic(shape: ModelShape, facts: Facts, capability: tuple[int, int]) -> str:
    """`auto`: the checkpoint's word (a scheme for attention layers does not reach latent ones), and
    fp8 for GLM-5 on Blackwell.
    """
    name = checkpoint_cache_dtype(shape)
    if name == "fp8" and facts.latents:
        name = "auto"
    if name == "auto" and capability[0] == 10 and shape.architecture == "GlmMoeDsaForCausalLM":
        return "fp8_e4m3"
    return name


def check_method(method: str) -> None:
    """Whether there is such a way to speculate; modules have a name by model type as well.

    Raises:
        InputError: on `speculative_method` for one that nobody has.
    """
    known = ("mtp", *MODEL_FREE_METHODS, *DRAFTING_METHODS)
    if method not in known and not method.endswith("_mtp"):
        words = f"unknown method {method[:40]!r}; known: {', '.join(known)}"
        raise _refuse("speculative_method", words)


def speculation(shape: ModelShape, arguments: VllmArguments) -> tuple[bool, int, int]:
    """(whether prediction modules are cached, drafted tokens, tokens a window keeps beyond itself).

    Several modules in a chain each read one token further ahead.
    """
    method, drafted = arguments.speculative_method, arguments.num_speculative_tokens
    if method is None:
        if drafted:
            raise _refuse("speculative_method", "is missing beside num_speculative_tokens")
        return False, 0, 0
    check_method(method)
    if method in MODEL_FREE_METHODS:
        if drafted is None:
            raise _refuse("num_speculative_tokens", f"is needed for {method}")
        return False, drafted, 0
    if method in DRAFTING_METHODS:
        raise _refuse(
            "speculative_method",
            f"{method!r} needs a draft model, whose cache is not planned here; "
            f"known: mtp, {', '.join(MODEL_FREE_METHODS)}",
        )
    modules = len(shape.draft_groups)
    if not modules:
        raise _refuse("speculative_method", "the model has no prediction modules (MTP)")
    tokens = modules if drafted is None else drafted
    if tokens > modules and tokens % modules:
        raise _refuse("num_speculative_tokens", f"{tokens} is no multiple of {modules} modules")
    chained = min(modules, tokens) > 1
    return True, tokens, tokens - 1 if chained else 0


def longest(shape: ModelShape, arguments: VllmArguments) -> int:
    """`max_model_len`: as asked, else what the model was made for, else 2,048."""
    return arguments.max_model_len or shape.max_position_embeddings or UNSTATED_LENGTH


def _refuse(field: str, msg: str, *, type: str = "engine_refuses") -> InputError:  # noqa: A002 -- the problem's own word
    return InputError.of(field, msg, type=type)
