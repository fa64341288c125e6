"""`POST /verify`: logs of our own making, with figures worked out by hand in the comments."""

import json
import logging

import httpx
import pytest

from tests.logs import samples

LLAMA = "llama-3-8b"
GIB = 2**30
# Llama 3 8B: 2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 bytes a token; 16 of them 2 MiB.
BLOCK = 2 * 2**20

STARTED = """\
INFO [core.py:106] Initializing a V1 LLM engine (v0.19.0) with config: model='some/where', \
dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, quantization=None, \
enforce_eager=False, kv_cache_dtype=auto
INFO [scheduler.py:239] Chunked prefill is enabled with max_num_batched_tokens=8192.
INFO [gpu_model_runner.py:4821] Model loading took 14.96 GiB memory and 8.100000 seconds
INFO [gpu_worker.py:436] Available KV cache memory: 50.0 GiB
INFO [kv_cache_utils.py:1319] GPU KV cache size: 409,600 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 50.00x
INFO [gpu_worker.py:597] CUDA graph pool memory: 0.9 GiB (actual), 0.8 GiB (estimated), difference
INFO [gpu_worker.py:755] Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory \
utilization is (0.9, 71.27 GiB). Actual usage is 14.96 GiB for weight, 6.05 GiB for peak \
activation, 0.26 GiB for non-torch memory, and 0.9 GiB for CUDAGraph memory.
"""


async def ask(client: httpx.AsyncClient, log: str, **fields: object) -> dict[str, object]:
    answer = await client.post("/verify", json={"log": log, **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def rows(answer: dict) -> dict[str, dict]:
    return {row["quantity"]: row for row in answer["table"]}


async def test_exercise_b_blocks_as_sequences(client: httpx.AsyncClient) -> None:
    log = (
        "INFO 11-05 18:02:40 gpu_executor.py:76] # GPU blocks: 27930, # CPU blocks: 2048\n"
        "INFO 11-05 18:02:40 gpu_executor.py:80] Maximum concurrency for 8192 tokens per "
        "request: 54.55x\n"
    )
    answer = await ask(client, log, model=LLAMA, gpu="h100", engine_version="0.6.6")
    sequences = answer["sequences"]
    # 27,930 x 16 = 446,880 tokens; 8,192 / 16 = 512 blocks; 27,930 / 512 = 54.55
    assert (sequences["block_size"], sequences["blocks_per_sequence"]) == (16, 512)
    assert (sequences["num_blocks"], sequences["logged"]) == (27_930, 54.55)
    assert round(sequences["sequences"], 2) == 54.55
    assert "446,880 tokens" in sequences["working"]
    assert answer["fits"] is True


@pytest.mark.parametrize(
    ("said", "tokens"),
    [
        # blocks of 16 by default, as printed, or as a kernel forces them
        ("", 27_930 * 16),
        ("INFO args: Namespace(model='a', block_size=32)\n", 27_930 * 32),
        ("INFO Forcing kv cache block size to 64 for FlashMLA backend.\n", 27_930 * 64),
        # Blocks that match states are those of several groups.
        ("INFO Setting attention block size to 1072 tokens\n", None),
    ],
)
async def test_blocks_alone_are_tokens(
    client: httpx.AsyncClient, said: str, tokens: int | None
) -> None:
    log = said + "INFO gpu_executor.py:76] # GPU blocks: 27930, # CPU blocks: 2048\n"
    answer = await ask(client, log)
    assert answer["read"]["measured"]["kv_cache_tokens"] == tokens
    assert rows(answer).get("kv_cache_tokens", {}).get("measured") == tokens
    known = await ask(client, log, model=LLAMA, gpu="h100", engine_version="0.6.6", context=8192)
    assert rows(known)["kv_cache_tokens"]["measured"] == tokens


async def test_the_parts_of_the_difference_add_up(client: httpx.AsyncClient) -> None:
    answer = await ask(client, STARTED, model=LLAMA, gpu="h100")
    for split in (answer["kv_pool"], answer["from_formula"]):
        assert (
            split["from_bytes"] + sum(part["bytes"] for part in split["parts"])
            == (split["to_bytes"])
        )
    pool = {part["part"]: part["bytes"] for part in answer["kv_pool"]["parts"]}
    table = rows(answer)
    assert answer["kv_pool"]["to_bytes"] == 50 * GIB
    for part in ("weights", "activation", "non_torch"):
        assert pool[part] == table[part]["predicted"] - table[part]["measured"]
    # 71.27 - 14.96 - 6.05 - 0.26 = 50.00: nothing is left to explain
    last = answer["kv_pool"]["parts"][-1]
    assert (last["part"], "rounding" in last["reason"]) == ("unexplained", True)


async def test_the_rank_with_least_is_what_is_explained(client: httpx.AsyncClient) -> None:
    ranks = "".join(
        f"(Worker_TP{rank} pid={rank + 90}) INFO [gpu_worker.py:436] Available KV cache memory: "
        f"{pool} GiB\n"
        for rank, pool in ((0, "50.25"), (1, "50.0"))
    )
    log = STARTED.replace(
        "INFO [gpu_worker.py:436] Available KV cache memory: 50.0 GiB\n", ranks
    ).replace("tensor_parallel_size=1", "tensor_parallel_size=2")
    answer = await ask(client, log.replace("409,600", "819,200"), model=LLAMA, gpu="h100")
    assert answer["kv_pool"]["to_bytes"] == rows(answer)["kv_pool"]["measured"] == 50 * GIB
    assert answer["calibration"]["kv_budget_bytes"] == 50 * GIB
    # 819,200 tokens x 65,536 bytes on each of two GPUs
    assert answer["from_formula"]["to_bytes"] == 50 * GIB
    assert answer["summary"][0].startswith("The cache has 50.00 GiB on each GPU")


@pytest.mark.parametrize(("model", "warned"), [("llama-3-70b", True), (LLAMA, False)])
async def test_another_model_than_the_logs_is_named(
    client: httpx.AsyncClient, model: str, *, warned: bool
) -> None:
    log = STARTED.replace("some/where", "meta-llama/Meta-Llama-3-8B")
    answer = await ask(client, log, model=model, gpu="h100", tensor_parallel_size=4)
    named = [line for line in answer["warnings"] if "the log names meta-llama/" in line]
    assert bool(named) is warned


async def test_from_the_formula_to_the_log(client: httpx.AsyncClient) -> None:
    answer = await ask(client, STARTED, model=LLAMA, gpu="h100")
    walk = answer["from_formula"]
    # 80e9 - 16,060,522,496 - 4e9, as worked example 1 has it
    assert walk["from_bytes"] == 59_939_477_504
    parts = {part["part"]: part["bytes"] for part in walk["parts"]}
    # 79.19 x 2^30 = 85,029,615,043; less 80e9
    assert parts["gib_against_gb"] == 5_029_615_043
    # 71.27 x 2^30 = 76,525,579,796 of it are the engine's
    assert parts["version_rule"] == -(85_029_615_043 - 76_525_579_796)
    # 2e9 - 6.05 x 2^30
    assert parts["activation"] == 2_000_000_000 - 6_496_138_035
    # 50 GiB are 25,600 whole blocks; 8,192 tokens are whole blocks; 8 heads on one GPU
    assert parts["block_rounding_of_the_pool"] == 0
    assert parts["block_rounding"] == parts["replicated_heads"] == parts["padding_layers"] == 0
    assert walk["to_bytes"] == 50 * GIB


async def test_tokens_of_the_logged_memory(client: httpx.AsyncClient) -> None:
    answer = await ask(client, STARTED, model=LLAMA, gpu="h100")
    tokens = rows(answer)["kv_cache_tokens_of_logged_memory"]
    # 50 GiB / 2 MiB = 25,600 blocks of 16
    assert (tokens["predicted"], tokens["measured"]) == (409_600, 409_600)
    assert answer["refuted"] == []
    assert any("laid out as expected" in sentence for sentence in answer["summary"])


async def test_another_cache_than_expected_is_said(client: httpx.AsyncClient) -> None:
    log = STARTED.replace("409,600", "819,200").replace("50.00x", "100.00x")
    answer = await ask(client, log, model=LLAMA, gpu="h100")
    reason = rows(answer)["kv_cache_tokens_of_logged_memory"]["reason"]
    assert "0.50 times the bytes a token" in reason
    assert answer["refuted"]


async def test_replicated_heads_are_told(client: httpx.AsyncClient) -> None:
    # 8 KV heads on 16 ranks: each keeps one whole, so half of what it holds is a copy.
    log = STARTED.replace("tensor_parallel_size=1", "tensor_parallel_size=16")
    log = log.replace("409,600", "3,276,800").replace("50.00x", "400.00x")
    answer = await ask(client, log, model=LLAMA, gpu="h100")
    parts = {part["part"]: part["bytes"] for part in answer["from_formula"]["parts"]}
    # 16,384 bytes a token on each rank, 8,192 if divided by 16: half of 50 GiB
    assert parts["replicated_heads"] == -25 * GIB


async def test_measurements_go_on_to_the_next_question(client: httpx.AsyncClient) -> None:
    found = await ask(client, STARTED, model=LLAMA, gpu="h100")
    assert found["calibration"]["kv_budget_bytes"] == 50 * GIB
    question = {"model": LLAMA, "gpu": "h100", "engine": "vllm", "context": 8192}
    question |= {"engine_version": "0.19.0", "calibration": found["calibration"]}
    answer = await client.post("/concurrency", json=question)
    assert answer.status_code == 200, answer.text
    assert answer.json()["kv_budget_bytes"] == 50 * GIB
    assert answer.json()["max_concurrency_exact"] == 50.0
    plan = {**question, "concurrent_users": 100}
    assert (await client.post("/plan", json=plan)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "text/plain; charset=utf-8"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/octet-stream"},
        {},
    ],
)
async def test_text_with_the_rest_in_the_query(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    answer = await client.post(
        "/verify", params={"model": LLAMA, "gpu": "h100"}, content=STARTED.encode(), headers=headers
    )
    assert answer.status_code == 200, answer.text
    assert answer.json() == await ask(client, STARTED, model=LLAMA, gpu="h100")
    assert answer.headers["cache-control"] == "no-store"


async def test_the_query_adds_to_a_json_body(client: httpx.AsyncClient) -> None:
    answer = await client.post("/verify?gpu=h100", json={"log": STARTED, "model": LLAMA})
    assert answer.json() == await ask(client, STARTED, model=LLAMA, gpu="h100")


@pytest.mark.parametrize(
    ("query", "content", "status", "where"),
    [
        ("", b"nothing of interest\n", 422, "body.log"),
        ("", b"", 422, "body"),
        ("?gpus=h100", STARTED.encode(), 422, "query.gpus"),
        ("?gpu=h100&gpu=a100", STARTED.encode(), 422, "query.gpu"),
        ("?tensor_parallel_size=x", STARTED.encode(), 422, "query.tensor_parallel_size"),
        ("?gpu=h1000", STARTED.encode(), 404, None),
        ("?model=../no-such-id", STARTED.encode(), 422, "body.model"),
        ("?model=org/unknown", STARTED.encode(), 503, None),
        (f"?model={LLAMA}&gpu=h100&tensor_parallel_size=3", STARTED.encode(), 422, None),
    ],
)
async def test_problems(
    client: httpx.AsyncClient, query: str, content: bytes, status: int, where: str | None
) -> None:
    answer = await client.post(
        f"/verify{query}", content=content, headers={"content-type": "text/plain"}
    )
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    if where is not None:
        assert where in {".".join(map(str, e["loc"])) for e in answer.json()["errors"]}


async def test_an_unreadable_log_says_what_is_looked_for(client: httpx.AsyncClient) -> None:
    answer = await client.post("/verify", json={"log": "hello"})
    assert answer.status_code == 422
    assert "GPU KV cache size" in answer.json()["detail"]


async def test_without_model_or_gpu_the_log_is_read_all_the_same(
    client: httpx.AsyncClient,
) -> None:
    answer = await ask(client, STARTED)
    # `some/where` is on no hub that can be reached
    assert any("the model that the log names" in words for words in answer["missing"])
    assert answer["model"] is None
    assert answer["read"]["measured"]["kv_pool_bytes"] == 50 * GIB
    assert {row["reason"] for row in answer["table"]} == {"not predicted"}
    assert answer["calibration"]["weight_bytes"] > 0


async def test_of_an_unnamed_gpu_the_log_tells_the_memory(client: httpx.AsyncClient) -> None:
    answer = await ask(client, STARTED, model=LLAMA)
    # 79.19 x 2^30
    assert answer["gpu"]["memory_bytes"] == 85_029_615_043
    assert any("only its memory is known" in words for words in answer["assumptions"])


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (samples.VLLM_TOO_SMALL, "needs 16.00 GiB and does not fit in the 5.20 GiB"),
        (
            "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (614). Each",
            "only 614 blocks",
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "left nothing for the cache",
        ),
    ],
)
async def test_what_did_not_fit_is_said(client: httpx.AsyncClient, log: str, words: str) -> None:
    answer = await ask(client, log, model=LLAMA, gpu="h100")
    assert answer["fits"] is False
    assert words in answer["summary"][0]


@pytest.mark.parametrize(
    ("log", "engine"),
    [
        (samples.VLLM_V1, "vllm"),
        (samples.VLLM_V0, "vllm"),
        (samples.VLLM_0_33, "vllm"),
        (samples.SGLANG, "sglang"),
        (samples.TENSORRT_LLM, "tensorrt-llm"),
        (samples.LLAMA_CPP, "llama.cpp"),
        (samples.LLAMA_CPP_2024, "llama.cpp"),
    ],
)
async def test_every_engine_is_predicted(client: httpx.AsyncClient, log: str, engine: str) -> None:
    answer = await ask(client, log, model=LLAMA, gpu="h100", explain=True)
    assert answer["read"]["engine"] == engine
    assert answer["steps"]
    for split in filter(None, (answer["kv_pool"], answer["from_formula"])):
        total = split["from_bytes"] + sum(part["bytes"] for part in split["parts"])
        assert total == split["to_bytes"]


async def test_llama_cpp_allocates_what_the_context_asks(client: httpx.AsyncClient) -> None:
    answer = await ask(client, samples.LLAMA_CPP, model=LLAMA, gpu="3090")
    pool = rows(answer)["kv_pool"]
    # 2 x 32 layers x 1,024 wide x 8.5 bits x 32,768 cells = 2,176 MiB
    assert pool["predicted"] == pool["measured"] == 2176 * 2**20
    assert answer["kv_pool"]["from_bytes"] == answer["kv_pool"]["to_bytes"]


async def test_settings_that_a_model_has_not_are_left_out_and_named(
    client: httpx.AsyncClient,
) -> None:
    answer = await ask(client, samples.VLLM_V1, model=LLAMA, gpu="h100")
    assert any("speculative_method" in words for words in answer["assumptions"])
    assert answer["kv_pool"] is not None


async def test_nothing_of_a_log_is_logged(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await client.post("/verify", json={"log": STARTED + "secret-of-the-log"})
    await client.post("/verify", json={"log": "secret-of-the-log"})
    assert "secret-of-the-log" not in caplog.text
    answer = await client.post("/verify", json={"log": "secret-of-the-log", "gpu": 1})
    assert "secret-of-the-log" not in answer.text


async def test_a_log_over_the_limit_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/verify", content=b"x" * (8 * 2**20 + 1))
    assert answer.status_code == 413


async def test_a_log_of_five_megabytes(client: httpx.AsyncClient) -> None:
    serving = "INFO [loggers.py:259] Engine 000: GPU KV cache usage: 3.2%, Running: 12 reqs\n"
    text = STARTED + serving * (5_000_000 // len(serving))
    answer = await client.post("/verify?gpu=h100", content=text.encode())
    assert answer.status_code == 200
    assert answer.json()["read"]["measured"]["kv_cache_tokens"] == 409_600


async def test_json_schema_documents_both_bodies(client: httpx.AsyncClient) -> None:
    document = json.loads((await client.get("/openapi.json")).text)
    body = document["paths"]["/verify"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "text/plain"}
