"""Questions that people asked about startup logs, each with its own figures, answered."""

import httpx

QWEN_14B = {
    "model_type": "qwen2",
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "intermediate_size": 13824,
    "vocab_size": 152064,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_CODER_6_7B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32256,
    "max_position_embeddings": 16384,
    "torch_dtype": "bfloat16",
}
QWEN_3_CODER_30B = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "torch_dtype": "bfloat16",
}


async def ask(client: httpx.AsyncClient, log: str, **fields: object) -> dict:
    answer = await client.post("/verify", json={"log": log, **fields})
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def rows(answer: dict) -> dict[str, dict]:
    return {row["quantity"]: row for row in answer["table"]}


async def test_a_pool_is_one_gpus_and_the_poorest_rank_decides(client: httpx.AsyncClient) -> None:
    """Two 4090s, TP 2, 8.69 GiB printed, 81,536 tokens (vLLM 0.7)."""
    log = (
        "Loading model weights took 13.9476 GB\n"
        "the current vLLM instance can use total_gpu_memory (23.55GiB) x gpu_memory_utilization "
        "(0.98) = 23.08GiB\n"
        "model weights take 13.95GiB; non_torch_memory takes 0.25GiB; PyTorch activation peak "
        "memory takes 0.19GiB; the rest of the memory reserved for KV Cache is 8.69GiB\n"
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens "
        "that can be stored in KV cache (81536).\n"
    )
    answer = await ask(
        client, log, config=QWEN_14B, gpu="4090", tensor_parallel_size=2, engine_version="0.7.3"
    )
    assert answer["fits"] is False
    tokens = rows(answer)["kv_cache_tokens_of_logged_memory"]
    # 2 x 48 x 4 heads x 128 x 2 = 98,304 bytes a token on each GPU; 8.69 GiB hold 94,912 of them
    assert (tokens["predicted"], tokens["measured"]) == (94_912, 81_536)
    # 81,536 x 98,304 = 7.46 GiB, which the other rank has
    assert "7.46 GiB" in tokens["reason"] or "7.47 GiB" in tokens["reason"]


async def test_each_rank_holds_its_heads_and_blocks_are_counted_once(
    client: httpx.AsyncClient,
) -> None:
    """Two T4s, TP 2: 507 blocks."""
    log = "# GPU blocks: 507, # CPU blocks: 1024\n"
    answer = await ask(
        client, log, config=DEEPSEEK_CODER_6_7B, gpu="t4", tensor_parallel_size=2, context=16384
    )
    # 507 x 16 = 8,112 tokens, of which 16,384 do not fit: 507 / 1,024
    assert "8,112 tokens" in answer["sequences"]["working"]
    assert round(answer["sequences"]["sequences"], 3) == 0.495


async def test_stages_keep_their_own_layers(client: httpx.AsyncClient) -> None:
    """PP 2: 24 GiB of the whole model were compared with 3.18 GiB of one stage."""
    log = (
        "ValueError: To serve at least one request with the models's max seq len (262144), (24.00 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). "
        "Based on the available memory, the estimated maximum model length is 34736.\n"
    )
    answer = await ask(
        client,
        log,
        config=QWEN_3_CODER_30B,
        gpu="5090",
        pipeline_parallel_size=2,
        engine_version="0.15.2",
    )
    measured = answer["read"]["measured"]
    assert measured["needed_kv_bytes"] == 24 * 2**30
    assert measured["estimated_max_len"] == 34_736
    # 48 layers x 2 x 4 x 128 x 2 = 98,304 bytes a token; 262,144 of them are 24 GiB
    assert answer["fits"] is False
    assert "needs 24.00 GiB" in answer["summary"][0]


async def test_tensorrt_llm_counts_tokens(client: httpx.AsyncClient) -> None:
    answer = await ask(client, "[TensorRT-LLM][INFO] Using 10718 tokens in paged KV cache.\n")
    assert answer["read"]["measured"]["kv_cache_tokens"] == 10_718
    assert answer["read"]["engine"] == "tensorrt-llm"


async def test_what_another_process_holds_is_told(client: httpx.AsyncClient) -> None:
    """A second server on an A100 that has 11 GiB free."""
    log = (
        "ValueError: Free memory on device cuda:0 (11.14/79.15 GiB) on startup is less than "
        "desired GPU memory utilization (0.2, 15.83 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes.\n"
    )
    answer = await ask(client, log, config=QWEN_14B, gpu="a100-80gb", engine_version="0.15.1")
    assert answer["fits"] is False
    assert "something else holds memory" in answer["summary"][0]
    # 79.15 - 11.14 = 68.01 GiB
    assert any("68.01 GiB" in refuted["log"] for refuted in answer["refuted"])


async def test_a_pool_below_nothing_is_no_fit(client: httpx.AsyncClient) -> None:
    """Two servers started together each charge the other's loading to themselves."""
    answer = await ask(client, "INFO [gpu_worker.py:1] Available KV cache memory: -3.21 GiB\n")
    assert answer["fits"] is False
    assert answer["read"]["measured"]["kv_pool_bytes"] < 0


async def test_tokens_over_memory_need_not_be_a_rate(client: httpx.AsyncClient) -> None:
    """Before 0.21 the token line counts blocks, since then concurrency x length."""
    for version, rule in (("0.19.0", "blocks x block size"), ("0.25.1", "concurrency x max_model")):
        log = (
            "INFO Available KV cache memory: 24.0 GiB\n"
            "INFO GPU KV cache size: 262,144 tokens\n"
            "INFO Maximum concurrency for 131,072 tokens per request: 2.00x\n"
        )
        answer = await ask(client, log, config=QWEN_3_CODER_30B, gpu="h100", engine_version=version)
        # 24 GiB / 98,304 bytes a token = 262,144
        tokens = rows(answer)["kv_cache_tokens_of_logged_memory"]
        assert (tokens["predicted"], rule in tokens["reason"]) == (262_144, True)
