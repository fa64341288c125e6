"""What is advised where too little fits, each change with its number."""

import httpx


async def test_weights_of_four_bits_where_eight_leave_no_room(client: httpx.AsyncClient) -> None:
    asked = {"model": "llama-3-70b", "gpu": "h100", "context": 8192}
    answer = (await client.get("/concurrency", params=asked)).json()
    found = {
        each["change"]["quantization"]: each["max_concurrency"]
        for each in answer["advice"]
        if each["action"] == "quantise_weights"
    }
    # In fp8 the embedding and the head (2 x 128,256 x 8,192) stay in 16 bits and the other 68.45e9
    # take a byte: 72.7 GB of 76, and 8,192 tokens x 327,680 = 2.68 GB: one sequence. In awq they take
    # half a byte, and 4 bits of zero and 16 of scale in 128: 0.52 bytes, 39.8 GB in all: 13.
    assert found == {"fp8": 1, "awq": 13}


async def test_a_callers_own_weights_are_halved_and_halved_again(client: httpx.AsyncClient) -> None:
    asked = {"model": "llama-3-70b", "gpu": "h100", "context": 8192, "batch": 10}
    answer = await client.get("/concurrency", params=asked | {"weight_bytes": 141_000_000_000})
    found = [
        (each["change"]["weight_bytes"], each["max_concurrency"])
        for each in answer.json()["advice"]
        if each["action"] == "quantise_weights"
    ]
    # 76e9 - 70.5e9 = 5.5e9 and 76e9 - 35.25e9 = 40.75e9, over 8,192 x 327,680 = 2,684,354,560
    assert found == [(70_500_000_000, 2), (35_250_000_000, 15)]


async def test_eight_bits_alone_where_they_are_enough(client: httpx.AsyncClient) -> None:
    asked = {"model": "llama-3-8b", "gpu": "h100", "context": 8192, "batch": 58}
    answer = (await client.get("/concurrency", params=asked)).json()
    changes = [e["change"] for e in answer["advice"] if e["action"] == "quantise_weights"]
    assert changes == [{"quantization": "fp8"}]
