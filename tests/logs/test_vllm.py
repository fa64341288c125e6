"""vLLM's logs. Bytes are the printed GiB x 2^30, worked out in each comment."""

import json

import pytest

from app.logs.reader import read_log
from app.logs.reading import ReadLog
from app.logs.templates import Size
from tests.logs import samples

# 0.005 GiB: half of the last digit that vLLM prints
HALF_A_DIGIT = 5_368_709


def read(text: str | bytes) -> ReadLog:
    log = read_log(text)
    assert log is not None
    return log


def gib(size: Size | None) -> float | None:
    return None if size is None else round(size.bytes / 2**30, 4)


def test_v1_settings_come_from_what_the_engine_resolved() -> None:
    log = read(samples.VLLM_V1)
    settings = log.settings
    assert (log.engine, log.version) == ("vllm", "0.19.0")
    assert (settings.model, settings.revision, settings.dtype) == (
        "acme/tiny-8b", "4f1a", "bfloat16",
    )  # fmt: skip
    assert settings.kv_cache_dtype == "fp8_e4m3"
    assert (settings.tensor_parallel_size, settings.max_model_len) == (2, 16384)
    assert (settings.max_num_seqs, settings.max_num_batched_tokens) == (64, 4096)
    assert settings.gpu_memory_utilization == 0.85
    assert (settings.enforce_eager, settings.enable_prefix_caching) == (False, True)
    assert (settings.speculative_method, settings.num_speculative_tokens) == ("mtp", 2)


def test_v1_figures_are_the_first_ranks_and_the_least_decides() -> None:
    log = read(samples.VLLM_V1)
    found = log.measured
    # 7.6 x 2^30 = 8,160,437,862.4: printed without its last zero, so still two decimals
    assert found.weights == Size(8_160_437_862, HALF_A_DIGIT)
    assert (gib(found.available_kv), gib(found.available_kv_least)) == (57.31, 57.02)
    assert (gib(found.total), gib(found.free_at_start), gib(found.requested)) == (
        79.19, 78.02, 67.31,
    )  # fmt: skip
    assert (gib(found.activation), gib(found.non_torch)) == (1.12, 1.28)
    assert (gib(found.graphs), gib(found.graphs_estimated)) == (0.41, 0.38)
    assert (found.kv_tokens, found.max_concurrency, found.concurrency_len) == (
        1_868_432, 114.04, 16_384,
    )  # fmt: skip
    assert [(rank.rank, gib(rank.available_kv)) for rank in log.ranks] == [(0, 57.31), (1, 57.02)]
    assert any("ranks differ" in warning for warning in log.warnings)
    assert (log.failures, log.missing) == ((), ())


def test_v0_prints_blocks_and_gb_that_are_gib() -> None:
    log = read(samples.VLLM_V0)
    found = log.measured
    assert (log.version, log.settings.quantization, log.settings.dtype) == (
        "0.6.6", "awq", "float16",
    )  # fmt: skip
    assert log.settings.enforce_eager is True
    assert (gib(found.weights), gib(found.activation), gib(found.non_torch)) == (
        5.3411, 1.21, 0.11,
    )  # fmt: skip
    assert (gib(found.available_kv), found.num_blocks) == (14.56, 7454)
    assert (found.max_concurrency, found.concurrency_len) == (14.56, 8192)


def test_from_0_27_weights_and_the_rest_are_one_figure_and_the_peak_holds_the_graphs() -> None:
    log = read(samples.VLLM_0_33)
    found = log.measured
    assert gib(found.consumed) == 15.61
    # 2.92 - 0.62 estimated for the graphs
    assert gib(found.activation) == 2.3
    assert (found.kv_tokens, found.max_concurrency, found.concurrency_len) == (
        445_056, 13.58, 32_768,
    )  # fmt: skip
    assert gib(found.available_kv) == 54.33


def test_a_refusal_says_what_was_needed() -> None:
    log = read(samples.VLLM_TOO_SMALL)
    assert log.failures == ("kv_cache_too_small",)
    assert (gib(log.measured.needed_kv), gib(log.measured.available_kv)) == (16.0, 5.2)
    assert (log.measured.concurrency_len, log.measured.estimated_max_len) == (131_072, 42_592)


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("ValueError: No available memory for the cache blocks. Try", "no_memory_for_kv_cache"),
        (
            "ValueError: Free memory on device cuda:0 (20.1/79.15 GiB) on startup is less than "
            "desired GPU memory utilization (0.9, 71.24 GiB). Decrease GPU",
            "memory_taken_by_others",
        ),
        (
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (614). Each",
            "state_slots",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00", "out_of_memory"),
    ],
)
def test_refusals_are_told_apart(line: str, failure: str) -> None:
    assert read(samples.VLLM_V1 + line).failures == (failure,)


def _coloured(text: str) -> str:
    return "".join(f"\x1b[0;36m{line}\x1b[0m\r\n" for line in text.splitlines())


def _kubernetes(text: str) -> str:
    stamp = "2026-03-02T09:15:01.123456789Z stderr F "
    return "".join(f"{stamp}{line}\n" for line in text.splitlines())


def _docker(text: str) -> str:
    return "".join(
        json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in text.splitlines()
    )


def _compose(text: str) -> str:
    return "".join(f"vllm-1  | {line}\n" for line in text.splitlines())


def _one_line(text: str) -> str:
    return json.dumps({"log": text})


def _wrapped(text: str) -> str:
    """As a terminal of 100 columns breaks it, at spaces."""
    lines = []
    for line in text.splitlines():
        rest = line
        while len(rest) > 100 and " with config: " not in line and "args: " not in line:
            cut = rest.rfind(" ", 0, 100)
            lines.append(rest[:cut])
            rest = " " * 9 + rest[cut + 1 :]
        lines.append(rest)
    return "\n".join(lines)


@pytest.mark.parametrize("dress", [_coloured, _kubernetes, _docker, _compose, _one_line])
@pytest.mark.parametrize("text", [samples.VLLM_V1, samples.VLLM_V0, samples.VLLM_0_33])
def test_what_is_around_the_lines_changes_nothing(dress: object, text: str) -> None:
    assert callable(dress)
    dressed, plain = read(dress(text)), read(text)
    assert dressed.measured == plain.measured
    assert dressed.settings == plain.settings


def test_a_line_wrapped_between_words_is_read() -> None:
    wrapped = "INFO Maximum concurrency for 8,192\n         tokens per request: 54.66x"
    assert read(wrapped).measured.max_concurrency == 54.66
    assert read(_wrapped(samples.VLLM_V1)).measured.kv_tokens == 1_868_432


def test_bytes_that_are_no_utf_8() -> None:
    assert read(b"\xff\xfe\x00" + samples.VLLM_V1.encode()).measured == (
        read(samples.VLLM_V1).measured
    )


def test_of_several_starts_the_last_that_measured_something_is_read() -> None:
    later = samples.VLLM_V1.replace("57.31", "50.11").replace("57.02", "50.11")
    unfinished = samples.VLLM_V1.partition("(Worker_TP1")[0]
    log = read(samples.VLLM_V1 + later + unfinished)
    assert gib(log.measured.available_kv) == 50.11
    assert "3 starts" in log.warnings[0]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_a_log_cut_off_says_what_is_missing(share: float) -> None:
    lines = samples.VLLM_V1.splitlines()
    log = read("\n".join(lines[: int(len(lines) * share)]) + "\nINFO Loading safetensors 1.0 GiB")
    missing = {words.partition(":")[0].replace(" ", "_") for words in log.missing}
    assert "activation" in missing
    for name in missing:
        assert getattr(log.measured, name) is None


def test_a_cut_command_line_and_its_continuation() -> None:
    text = (
        "$ CUDA_VISIBLE_DEVICES=0 vllm serve acme/tiny-8b \\\n    --max-model-len 32k \\\n"
        "    --gpu-memory-utilization=0.95 -tp 4 --enforce-eager | tee log\n"
        "INFO [gpu_worker.py:1] Available KV cache memory: 3.5 GiB\n"
    )
    settings = read(text).settings
    assert (settings.model, settings.max_model_len) == ("acme/tiny-8b", 32_000)
    assert (settings.gpu_memory_utilization, settings.tensor_parallel_size) == (0.95, 4)
    assert settings.enforce_eager is True


def test_pipeline_stages_are_told_apart() -> None:
    text = "".join(
        f"(Worker_PP{stage}_TP{rank} pid={10 * stage + rank + 1}) INFO "
        f"Available KV cache memory: {40 + stage}.{rank} GiB\n"
        for stage in (1, 0)
        for rank in (1, 0)
    )
    log = read(text)
    assert gib(log.measured.available_kv) == 40.0
    assert [(rank.stage, rank.rank) for rank in log.ranks] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_block_that_a_kernel_forces_is_the_size_of_blocks() -> None:
    text = (
        "INFO [cuda.py:150] Forcing kv cache block size to 64 for FlashMLA backend.\n"
        "INFO [executor_base.py:110] # cuda blocks: 7800, # CPU blocks: 4000\n"
    )
    log = read(text)
    assert (log.settings.block_size, log.measured.num_blocks) == (64, 7800)


@pytest.mark.parametrize(
    ("note", "tokens", "blocks"),
    [
        ("# GPU blocks 31,615 before, 20,865 after", None, 20_865),
        ("GPU blocks: 100 blocks before, 120 after the fix", None, 120),
        ("at 5.2 GiB: 69,758 tokens bf16 -> 138,696 int8_per_token_head", 138_696, None),
        ("prefix caching: 223,821 -> 193,298 tokens", 193_298, None),
        ("40,000 tokens before the drafts; 31.6 GiB more", 40_000, None),
    ],
)
def test_of_a_before_and_an_after_the_after_is_read(
    note: str, tokens: int | None, blocks: int | None
) -> None:
    found = read(note).measured
    assert (found.kv_tokens, found.num_blocks) == (tokens, blocks)


def test_what_serving_prints_is_no_start() -> None:
    serving = "(APIServer pid=71) INFO [loggers.py:9] GPU KV cache usage: 3.2%, Running: 1 reqs\n"
    assert read(samples.VLLM_V1 + serving * 2000).measured == read(samples.VLLM_V1).measured
    assert read_log(serving) is None
