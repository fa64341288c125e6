"""vLLM 0.33's defaults by device, its backends and cache precisions."""

from collections.abc import Mapping

import pytest

from app.core.cache import SparseIndexer
from app.core.engines.vllm import VllmArguments, plan_cache
from app.core.engines.vllm_cache_dtype import head_token_bytes
from app.core.hardware import Gpu
from app.errors import InputError
from tests.core.engines.shapes import (
    A100,
    B200,
    H100,
    L40S,
    RTX_5090,
    device,
    full,
    latent,
    model,
    window,
)


@pytest.mark.parametrize(
    ("gpu", "entry", "tokens", "sequences"),
    [
        (H100, "api_server", 8192, 1024),
        (H100, "llm_class", 16384, 1024),
        (B200, "api_server", 16384, 1024),
        (A100, "api_server", 2048, 256),
        (A100, "llm_class", 8192, 256),
        (L40S, "api_server", 2048, 256),
        (device((12, 1), 128, "NVIDIA GB10"), "api_server", 2048, 256),
    ],
)
def test_batches_are_sized_by_the_device(gpu: Gpu, entry, tokens: int, sequences: int) -> None:
    settings = plan_cache(model((1, full())), VllmArguments(entry_point=entry), gpu).settings
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (tokens, sequences)


@pytest.mark.parametrize("version", ["0.13.0", "0.25.1", "0.29.0"])
def test_what_nvml_does_not_report_counts_as_little(version: str) -> None:
    # github.com/vllm-project/vllm/pull/57378: 121.7 GiB, and the defaults of a small device.
    gpu = device((12, 1), 128, "NVIDIA GB10")
    settings = plan_cache(model((1, full())), VllmArguments(version=version), gpu).settings
    assert (settings.max_num_batched_tokens, settings.max_num_seqs) == (2048, 256)


def test_a_short_model_bounds_the_batch() -> None:
    arguments = VllmArguments(max_model_len=4, max_num_seqs=8)
    assert plan_cache(model((1, full())), arguments, H100).settings.max_num_batched_tokens == 32


def test_pooling_models_run_one_batch_at_a_time() -> None:
    shape = model((1, window(128)), traits=frozenset({"pooling"}))
    assert plan_cache(shape, VllmArguments(), H100).settings.max_in_flight_tokens == 8192


def test_encoder_decoders_take_whole_sequences() -> None:
    shape = model((1, full()), traits=frozenset({"encoder_decoder"}))
    settings = plan_cache(shape, VllmArguments(max_model_len=20_000), H100).settings
    assert settings.max_num_batched_tokens == 20_000
    assert not settings.enable_prefix_caching


@pytest.mark.parametrize(
    ("gpu", "dtype", "backend", "block_size"),
    [
        (H100, "auto", "FLASH_ATTN_MLA", 16),
        (H100, "fp8", "FLASHMLA", 64),
        (B200, "auto", "FLASHINFER_MLA", 32),
        (B200, "fp8", "FLASHINFER_MLA", 32),
        (A100, "auto", "TRITON_MLA", 16),
        (L40S, "fp8", "TRITON_MLA", 16),
        (RTX_5090, "fp8", "TRITON_MLA", 16),
    ],
)
def test_latent_attention_by_device(gpu: Gpu, dtype: str, backend: str, block_size: int) -> None:
    plan = plan_cache(model((1, latent())), VllmArguments(kv_cache_dtype=dtype), gpu)
    assert plan.settings.attention_backends == (backend,)
    assert plan.block_size == block_size


@pytest.mark.parametrize(
    ("gpu", "head_dim", "traits", "backend"),
    [
        (H100, 128, (), "FLASH_ATTN"),
        (H100, 256, ("prefix_lm",), "TRITON_FLASH_ATTN"),
        (B200, 128, (), "FLASHINFER"),
        (B200, 96, (), "FLASH_ATTN"),
        (B200, 256, ("prefix_lm",), "TRITON_FLASHINFER"),
        (B200, 64, ("attention_sinks",), "FLASHINFER"),
        (A100, 64, ("attention_sinks",), "TRITON_ATTN"),
        (A100, 128, ("prefix_lm",), "TRITON_ATTN"),
    ],
)
def test_attention_by_device(gpu: Gpu, head_dim: int, traits, backend: str) -> None:
    shape = model((1, full(head_dim=head_dim)), traits=frozenset(traits))
    assert plan_cache(shape, VllmArguments(), gpu).settings.attention_backends == (backend,)


@pytest.mark.parametrize(
    ("gpu", "head_dim", "traits", "served"),
    [
        (H100, 128, (), True),
        (H100, 128, ("alibi",), False),
        (B200, 128, ("alibi",), True),
        (A100, 128, (), True),
        (A100, 96, (), False),
        (A100, 64, ("attention_sinks",), False),
        (L40S, 96, (), True),
    ],
)
def test_fp8_is_refused_where_the_backend_cannot_read_it(gpu, head_dim, traits, served) -> None:
    shape = model((1, full(head_dim=head_dim)), traits=frozenset(traits))
    arguments = VllmArguments(kv_cache_dtype="fp8")
    if served:
        assert plan_cache(shape, arguments, gpu).bytes_per_block == 16 * 8 * 2 * head_dim
        return
    with pytest.raises(InputError) as refusal:
        plan_cache(shape, arguments, gpu)
    assert refusal.value.errors[0].loc == ("kv_cache_dtype",)


def test_keys_wider_than_values_are_fp8_only_on_hopper() -> None:
    shape = model((1, full(head_dim=192, v_head_dim=128)))
    arguments = VllmArguments(kv_cache_dtype="fp8")
    assert plan_cache(shape, arguments, H100).bytes_per_block == 16 * 8 * 320
    assert plan_cache(shape, VllmArguments(), B200).bytes_per_block == 16 * 8 * 640
    for gpu in (A100, B200):
        with pytest.raises(InputError):
            plan_cache(shape, arguments, gpu)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("auto", 512),  # 256 elements of two bytes
        ("fp8", 256),
        ("nvfp4", 144),  # twice 64 bytes and 8 scales
        ("int8_per_token_head", 264),  # one fp32 scale a side
        ("int4_per_token_head", 136),
        ("turboquant_k8v4", 196),  # 128 + (64 + 4)
        ("turboquant_4bit_nc", 134),  # (64 + 2) + (64 + 4)
        ("turboquant_k3v4_nc", 118),  # (48 + 2) + (64 + 4)
        ("turboquant_3bit_nc", 102),  # (48 + 2) + (48 + 4)
    ],
)
def test_bytes_of_a_token_in_a_head_of_128(dtype: str, size: int) -> None:
    assert head_token_bytes(dtype, 128, 128, 2) == size


def test_turboquant_leaves_two_layers_at_either_end() -> None:
    arguments = VllmArguments(kv_cache_dtype="turboquant_k8v4")
    plan = plan_cache(model((8, full())), arguments, H100)
    # a page of one byte a number has to cover 16 plain tokens: 16 x 512 / 256 = 32 tokens
    assert plan.block_size == 32
    assert plan.bytes_per_block == 32 * 8 * (4 * 196 + 4 * 512)
    # vLLM 0.33's own planning of Qwen2.5-14B (48 layers, 8 heads of 128)
    arguments = VllmArguments(kv_cache_dtype="turboquant_3bit_nc", max_model_len=4000)
    plan = plan_cache(model((48, full())), arguments, H100)
    assert (plan.block_size, plan.bytes_per_block) == (32, 1673216)
    assert plan.capacity(40 * 2**30).num_blocks == 25668


def test_sinks_of_sparse_latents_are_flashmlas_alone() -> None:
    # vLLM 0.33's own planning of Hunyuan 4's class defaults: 34 layers, 10 with an indexer of 132
    # bytes; 656 packed bytes a latent in blocks of 64
    indexer = SparseIndexer(index_head_dim=128, quantised=True)
    kinds = (10, (latent(), indexer)), (24, latent())
    arguments = VllmArguments(kv_cache_dtype="fp8", tensor_parallel_size=2)
    sunk = plan_cache(model(*kinds, traits=frozenset({"attention_sinks"})), arguments, B200)
    assert (sunk.block_size, sunk.bytes_per_block) == (64, 1511936)
    # FlashInfer, without sinks: 576 bytes
    plain = plan_cache(model(*kinds), arguments, B200)
    assert plain.bytes_per_block == 64 * (34 * 576 + 10 * 132)


def test_turboquant_and_flashinfer_share_no_layout() -> None:
    arguments = VllmArguments(kv_cache_dtype="turboquant_k8v4")
    with pytest.raises(InputError, match="FlashInfer"):
        plan_cache(model((8, full())), arguments, B200)


@pytest.mark.parametrize(
    ("quantization", "resolved"),
    [
        ({"quant_method": "fp8"}, "auto"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
        ({"quant_method": "modelopt", "kv_cache_quant_algo": "INT8"}, "auto"),
        (
            {
                "producer": {"name": "modelopt"},
                "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"},
            },
            "fp8_e4m3",
        ),
        (
            {
                "quant_method": "modelopt",
                "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": False},
            },
            "fp8_e4m3",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "kv_cache_scheme": {
                    "type": "float",
                    "num_bits": 8,
                    "strategy": "tensor",
                    "symmetric": True,
                },
            },
            "fp8",
        ),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, "auto"),
    ],
)
def test_auto_is_what_the_checkpoint_says(quantization: Mapping[str, object], resolved) -> None:
    shape = model((1, full()), quantization=dict(quantization))
    assert plan_cache(shape, VllmArguments(), H100).settings.kv_cache_dtype == resolved


def test_assumptions_name_the_defaults() -> None:
    said = " ".join(plan_cache(model((1, full())), VllmArguments()).assumptions)
    assert "H100" in said
    assert "max_num_batched_tokens 8192" in said
