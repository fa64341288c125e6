"""A draft model that the log names: part of the prediction where the catalogue knows it."""

import httpx
import pytest

GIB = 2**30
DRAFT = "meta-llama/Llama-3.2-1B-Instruct"
# Llama-3.1-8B has 2 x 32 x 8 x 128 x 2 = 131,072 bytes a token, Llama-3.2-1B 2 x 16 x 8 x 64 x 2 =
# 32,768: blocks of 16 take 2.5 MiB together, and 50 GiB are 20,480 of them, 327,680 tokens.
LOG = """\
INFO [core.py:106] Initializing a V1 LLM engine (v0.19.0) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', speculative_config=SpeculativeConfig(\
method='draft_model', model='{draft}', num_spec_tokens=5), dtype=torch.bfloat16, max_seq_len=8192, \
tensor_parallel_size={tp}, quantization=None, enforce_eager=False, kv_cache_dtype=auto
INFO [gpu_model_runner.py:4821] Model loading took 17.30 GiB memory and 8.100000 seconds
INFO [gpu_worker.py:436] Available KV cache memory: 50.0 GiB
INFO [kv_cache_utils.py:1319] GPU KV cache size: 327,680 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: 40.00x
"""


async def ask(
    client: httpx.AsyncClient, *, draft: str = DRAFT, tp: int = 1, **fields: object
) -> dict:
    body = {"log": LOG.format(draft=draft, tp=tp), "gpu": "h100", **fields}
    answer = await client.post("/verify", json=body)
    assert answer.status_code == 200, answer.text
    found: dict = answer.json()
    return found


def rows(answer: dict) -> dict[str, dict]:
    return {row["quantity"]: row for row in answer["table"]}


async def test_a_draft_of_the_catalogue_is_part_of_the_prediction(
    client: httpx.AsyncClient,
) -> None:
    answer = await ask(client)
    table = rows(answer)
    assert table["kv_cache_tokens_of_logged_memory"]["predicted"] == 327_680
    assert table["max_concurrency_of_logged_memory"]["predicted"] == 40
    assert answer["refuted"] == []
    # 8,030,261,248 and 1,235,814,400 parameters of 2 bytes are 17.26 GiB, and rotary tables.
    assert table["weights"]["predicted"] / GIB == pytest.approx(17.26, abs=0.05)
    assert any(line.startswith(f"{DRAFT} drafts on") for line in answer["assumptions"])


async def test_the_draft_takes_a_fifth_of_the_logged_cache(client: httpx.AsyncClient) -> None:
    answer = await ask(client)
    for split in (answer["kv_pool"], answer["from_formula"]):
        parts = sum(part["bytes"] for part in split["parts"])
        assert split["from_bytes"] + parts == split["to_bytes"]
    assert answer["kv_pool"]["to_bytes"] == 50 * GIB
    walk = {part["part"]: part["bytes"] for part in answer["from_formula"]["parts"]}
    assert walk["draft_cache"] == -10 * GIB
    assert answer["from_formula"]["to_bytes"] == 40 * GIB
    # The draft's cache is cache, and nothing outside the allocator.
    alone = await ask(client, draft="meta-llama/Llama-3.1-8B-Instruct")
    outside = [rows(found)["non_torch"]["predicted"] for found in (answer, alone)]
    assert outside[0] == pytest.approx(outside[1], abs=16)


async def test_measurements_with_a_draft_go_on_to_the_next_question(
    client: httpx.AsyncClient,
) -> None:
    found = await ask(client)
    question = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "h100", "engine": "vllm"}
    question |= {"context": 8192, "engine_version": "0.19.0", "draft_model": DRAFT}
    question |= {"calibration": found["calibration"]}
    answer = await client.post("/concurrency", json=question)
    assert answer.status_code == 200, answer.text
    assert answer.json()["max_concurrency_exact"] == 40.0


async def test_a_draft_that_the_catalogue_lacks_is_named(client: httpx.AsyncClient) -> None:
    answer = await ask(client, draft="acme/llama-8b-eagle3")
    said = [line for line in answer["assumptions"] if "'acme/llama-8b-eagle3'" in line]
    assert len(said) == 1
    assert "neither weights nor cache are in the prediction: it is not in the catalogue" in said[0]
    assert answer["kv_pool"] is not None


async def test_a_draft_that_does_not_divide_leaves_the_target_whole(
    client: httpx.AsyncClient,
) -> None:
    # 32 heads over 64 ranks divide neither model: the draft is left out and says so first.
    answer = await ask(client, tp=64)
    assert any(f"'{DRAFT}', of which neither" in line for line in answer["assumptions"])


async def test_the_senders_draft_stands_in_place_of_the_logs(client: httpx.AsyncClient) -> None:
    answer = await ask(client, draft="acme/llama-8b-eagle3", draft_model=DRAFT)
    assert answer["refuted"] == []
    assert not any("acme/" in line for line in answer["assumptions"])


async def test_drafts_of_other_engines_are_named(client: httpx.AsyncClient) -> None:
    log = (
        "[2026-01-14 10:20:30] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B-Instruct'"
        ", tp_size=1, context_length=8192, speculative_algorithm='EAGLE3', "
        "speculative_draft_model_path='acme/llama-8b-eagle3', speculative_num_draft_tokens=4)\n"
        "[2026-01-14 10:20:41] Load weight begin. avail mem=78.31 GB\n"
    )
    answer = await client.post("/verify", json={"log": log, "gpu": "h100"})
    assert any("sglang's drafts are not modelled" in line for line in answer.json()["assumptions"])


async def test_a_target_without_a_growing_cache_leaves_it_to_the_draft(
    client: httpx.AsyncClient,
) -> None:
    mamba = {
        "model_type": "mamba2", "num_hidden_layers": 4, "hidden_size": 1024, "num_heads": 32,
        "head_dim": 64, "expand": 2, "n_groups": 1, "state_size": 128, "conv_kernel": 4,
        "vocab_size": 32000, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
    }  # fmt: skip
    answer = await ask(client, config=mamba)
    assert answer["kv_pool"]["to_bytes"] == 50 * GIB
    parts = sum(part["bytes"] for part in answer["kv_pool"]["parts"])
    assert answer["kv_pool"]["from_bytes"] + parts == 50 * GIB
