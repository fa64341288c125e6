"""What a log leaves open is named, with what was taken in its place and what else would give."""

import httpx

LLAMA = "llama-3-8b"
NEMOTRON = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
POOL = "INFO [gpu_worker.py:436] Available KV cache memory: 50.0 GiB\n"


async def ask(client: httpx.AsyncClient, log: str, **fields: object) -> dict:
    fields = {"model": LLAMA, "gpu": "h100", "engine_version": "0.19.0", **fields}
    answer = await client.post("/verify", json={"log": log, **fields})
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def reason(answer: dict, quantity: str) -> str:
    words: str = next(row["reason"] for row in answer["table"] if row["quantity"] == quantity)
    return words


def tokens(count: int, context: int = 8192) -> str:
    return (
        f"INFO GPU KV cache size: {count:,} tokens\n"
        f"INFO Maximum concurrency for {context:,} tokens per request: {count / context:.2f}x\n"
    )


async def test_parallel_sizes_that_nobody_states(client: httpx.AsyncClient) -> None:
    # 8,030,261,248 parameters x 2 bytes / 2 GPUs = 7.48 GiB; 65,536 bytes a token on each.
    log = "INFO Model loading took 7.48 GiB memory and 8.1 seconds\n" + POOL + tokens(819_200)
    answer = await ask(client, log)
    said = "the log does not state tensor_parallel_size, taken as 1: 2 would give "
    assert said + "7.48 GiB" in reason(answer, "weights")
    assert said + "819,200" in reason(answer, "kv_cache_tokens_of_logged_memory")
    assert said + "100.00" in reason(answer, "max_concurrency_of_logged_memory")
    pool = {part["part"]: part["reason"] for part in answer["kv_pool"]["parts"]}
    assert said + "7.48 GiB" in pool["weights"]
    assert "not in the log: tensor_parallel_size, taken as 1" in answer["assumptions"]
    told = await ask(client, log, tensor_parallel_size=2)
    assert "does not state tensor_parallel_size" not in str(told)
    assert told["refuted"] == []


async def test_ranks_beyond_any_machine_are_passed_over(client: httpx.AsyncClient) -> None:
    log = "".join(f"(Worker_TP{rank} pid=9) INFO {POOL[5:]}" for rank in (0, 9999))
    answer = await ask(client, log, context=8192)
    assert "the log's tensor_parallel_size is none that requests take" in answer["assumptions"]
    assert answer["kv_pool"] is not None


async def test_what_fits_without_it_is_left_alone(client: httpx.AsyncClient) -> None:
    # 50 GiB / 131,072 bytes a token
    log = "INFO Model loading took 14.96 GiB memory and 8.1 seconds\n" + POOL + tokens(409_600)
    answer = await ask(client, log)
    assert reason(answer, "weights") == "as predicted, to the digits printed"
    assert "does not state tensor" not in reason(answer, "kv_cache_tokens_of_logged_memory")
    assert "not in the log: tensor_parallel_size, taken as 1" in answer["assumptions"]


async def test_ranks_that_wrote_the_log_are_its_parallel_size(client: httpx.AsyncClient) -> None:
    log = "".join(
        f"(Worker_TP{rank} pid={rank + 90}) INFO Available KV cache memory: 50.0 GiB\n"
        for rank in (0, 1)
    )
    answer = await ask(client, log + tokens(819_200))
    assert "tensor_parallel_size 2, by the ranks that wrote the log" in answer["assumptions"]
    assert "taken as" not in reason(answer, "kv_cache_tokens_of_logged_memory")
    # 50 GiB / 65,536 bytes a token on each of two GPUs
    assert answer["refuted"] == []


async def test_a_batch_that_nobody_states(client: httpx.AsyncClient) -> None:
    # With 1,024 sequences the sampler is the peak: 14 bytes x 1,024 x 128,256 of logits and 4 x 132
    # x 128,256 of rows, 8,192 x 4,096 x 2 of states, 51 MiB: 1.89 GiB. With 256 it is the forward
    # pass: 8,192 x 2 x (3 x 14,336 + 4 x 4,096) + 16 MiB = 0.92 GiB.
    log = POOL + (
        "INFO Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 71.27 GiB). Actual usage is 14.96 GiB for weight, 0.92 GiB for peak activation, 0.26 "
        "GiB for non-torch memory, and 0.9 GiB for CUDAGraph memory.\n"
    )
    answer = await ask(client, log, context=8192)
    said = "the log does not state max_num_seqs, taken as the default of 1,024: 256 would give "
    assert said + "0.92 GiB" in reason(answer, "activation")
    assert "not in the log: max_num_seqs, taken as the default of 1,024" in answer["assumptions"]
    other = await ask(client, log.replace("0.92 GiB", "9.00 GiB"), context=8192)
    assert "the default of 1,024: no other value comes nearer" in reason(other, "activation")
    told = await ask(client, log, context=8192, max_num_seqs=64)
    assert reason(told, "activation") == "as predicted, to the digits printed"


async def test_a_peak_that_is_not_printed_says_what_it_rests_on(client: httpx.AsyncClient) -> None:
    answer = await ask(client, POOL + tokens(409_600))
    words = reason(answer, "activation")
    assert words.startswith("not in the log; the peak of a profile run of 8,192 tokens, sampled ")
    assert "the log does not state max_num_seqs, taken as the default of 1,024: " in words
    rest = answer["kv_pool"]["parts"][-1]
    assert rest["part"] == "not_printed"
    assert "not in the log: max_num_seqs, taken as the default of 1,024" in rest["reason"]


async def test_a_cache_type_that_nobody_states(client: httpx.AsyncClient) -> None:
    # 8 bits: 65,536 bytes a token on one GPU, as two GPUs would have with 16.
    log = "INFO Model loading took 14.96 GiB memory and 8.1 seconds\n" + POOL + tokens(819_200)
    words = reason(await ask(client, log), "kv_cache_tokens_of_logged_memory")
    assert "the log does not state kv_cache_dtype, taken as auto: fp8 would give 819,200" in words
    assert "tensor_parallel_size, taken as 1: no other value comes nearer" in words


async def test_blocks_of_states_tell_cache_type_and_drafts(client: httpx.AsyncClient) -> None:
    """A GB10's log without its config line: fp8 cache, three drafted tokens, as it was started."""
    log = (
        "Setting attention block size to 8432 tokens\n"
        "Add 5 padding layers, may waste at most 12.50%\n"
        "Available KV cache memory: 36.25 GiB\n"
        "GPU KV cache size: 1,399,712 tokens\n"
        "Maximum concurrency for 131,072 tokens per request: 27.81x\n"
    )
    start = {"model": NEMOTRON, "gpu": "gb10", "engine_version": "0.19.2"}
    answer = await ask(client, log, **start)
    said = "the log does not state kv_cache_dtype and speculation, taken as auto and none: "
    said += "fp8 and 3 tokens of mtp would give "
    assert said + "1,399,712" in reason(answer, "kv_cache_tokens_of_logged_memory")
    assert said + "27.81" in reason(answer, "max_concurrency_of_logged_memory")
    stated = {"kv_cache_dtype": "fp8", "speculative_method": "mtp", "num_speculative_tokens": 3}
    assert (await ask(client, log, **start, **stated))["refuted"] == []


async def test_one_memory_for_both_is_named_as_the_reason(client: httpx.AsyncClient) -> None:
    answer = await ask(client, POOL, gpu="gb10", context=8192)
    assert "the page cache and what the host allocates count" in reason(answer, "non_torch")


async def test_a_version_that_the_sender_states_is_not_missed(client: httpx.AsyncClient) -> None:
    answer = await ask(client, POOL, context=8192)
    assert not any("states no version" in line for line in answer["assumptions"])
