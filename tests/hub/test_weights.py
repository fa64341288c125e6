"""What a checkpoint stores, from the cheapest statement that settles it; and GGUF files."""

import asyncio
from pathlib import Path

import pytest

from app.errors import HubBadAnswer, NoModelFiles
from app.hub.client import HubClient
from app.hub.local import LocalFiles
from app.hub.read_weights import read_weights
from tests.fake_hub import COMMIT, FakeHub, Fault, gguf_bytes, safetensors_bytes
from tests.hub.conftest import LLAMA, MakeClient

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
TENSORS = {"a": ("BF16", [100], 200), "b": ("F32", [10], 40)}
GGUF_MODEL = [
    ("general.architecture", "str", "llama"),
    ("llama.block_count", "u32", 2),
    ("llama.embedding_length", "u32", 256),
    ("llama.attention.head_count", "u32", 4),
    ("llama.attention.head_count_kv", "u32", 2),
    ("llama.context_length", "u32", 8192),
]
GGUF_TENSORS = [("token_embd.weight", [256, 1000], 8)]
# Q8_0: 34 bytes for 32 elements.
GGUF_TOTAL = 256 * 1000 // 32 * 34


async def weights_of(client: HubClient, repo_id: str = "org/model") -> tuple[int | None, str]:
    weights = await client.fetch_weights(await client.fetch_model(repo_id))
    return weights.total_bytes, weights.source


async def test_the_total_of_the_index_settles_it(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/model", {"config.json": LLAMA, INDEX: {"metadata": {"total_size": 5e3}}})
    assert await weights_of(client) == (5000, "index")
    asked = len(hub.requests)
    assert await weights_of(client) == (5000, "index")
    assert len(hub.requests) == asked


async def test_the_header_of_a_single_file(hub: FakeHub, client: HubClient) -> None:
    files = {"config.json": LLAMA, SINGLE: safetensors_bytes(TENSORS)}
    hub.add("org/model", files, large=frozenset({SINGLE}))
    weights = await client.fetch_weights(await client.fetch_model("org/model"))
    assert (weights.total_bytes, weights.source) == (240, "safetensors")
    assert weights.bytes_by_dtype == {"BF16": 200, "F32": 40}
    assert weights.elements_by_dtype == {"BF16": 100, "F32": 10}
    assert [seen.headers["range"] for seen in hub.cdn.requests] == ["bytes=0-100000"]


async def test_a_header_beyond_the_first_range(hub: FakeHub, client: HubClient) -> None:
    content = safetensors_bytes(TENSORS, padding=200_000)
    hub.add("org/model", {"config.json": LLAMA, SINGLE: content}, large=frozenset({SINGLE}))
    assert await weights_of(client) == (240, "safetensors")
    length = int.from_bytes(content[:8], "little")
    assert hub.cdn.requests[-1].headers["range"] == f"bytes=8-{length + 7}"


@pytest.mark.parametrize("padding", [0, 200_000])
async def test_a_server_that_ignores_ranges(hub: FakeHub, client: HubClient, padding: int) -> None:
    content = safetensors_bytes(TENSORS, padding=padding)
    hub.add("org/model", {"config.json": LLAMA, SINGLE: content}, large=frozenset({SINGLE}))
    hub.fault(r"model\.safetensors", Fault.IGNORED_RANGE)
    assert await weights_of(client) == (240, "safetensors")


async def test_a_server_that_sends_another_range(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/model", {"config.json": LLAMA, SINGLE: safetensors_bytes(TENSORS)})
    hub.fault(r"model\.safetensors$", Fault.WRONG_RANGE)
    with pytest.raises(HubBadAnswer, match="another range"):
        await weights_of(client)


async def test_an_index_without_a_total_leads_to_all_its_files(
    hub: FakeHub, client: HubClient
) -> None:
    index = {"metadata": {}, "weight_map": {"x": "1.safetensors", "y": "2.safetensors"}}
    one = safetensors_bytes({"x": ("BF16", [4], 8)})
    two = safetensors_bytes({"y": ("BF16", [1], 2), "z": ("I64", [], 8)})
    files = {"config.json": LLAMA, INDEX: index, "1.safetensors": one, "2.safetensors": two}
    hub.add("org/model", files)
    weights = await client.fetch_weights(await client.fetch_model("org/model"))
    assert weights.bytes_by_dtype == {"BF16": 10, "I64": 8}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "https://evil.example/x.safetensors", "x.bin"]
)
async def test_an_index_that_names_what_is_no_file_of_its_own(
    hub: FakeHub, client: HubClient, name: str
) -> None:
    hub.add("org/model", {"config.json": LLAMA, INDEX: {"weight_map": {"x": name}}})
    with pytest.raises(HubBadAnswer, match="no safetensors file"):
        await weights_of(client)


async def test_pytorch_files_by_their_index(hub: FakeHub, client: HubClient) -> None:
    index = {"metadata": {"total_size": 77}}
    hub.add("org/model", {"config.json": LLAMA, "pytorch_model.bin.index.json": index})
    assert await weights_of(client) == (77, "pytorch_index")


async def test_model_info_where_no_file_says_it(hub: FakeHub, client: HubClient) -> None:
    info = {"safetensors": {"parameters": {"BF16": 10, "U8": 3}}}
    hub.add("org/model", {"config.json": LLAMA}, info=info)
    assert await weights_of(client) == (23, "model_info")


async def test_a_dtype_of_unknown_size_is_named(hub: FakeHub, client: HubClient) -> None:
    info = {"safetensors": {"parameters": {"BF16": 10, "Q7_X": 3}}}
    hub.add("org/model", {"config.json": LLAMA}, info=info)
    with pytest.raises(HubBadAnswer, match="Q7_X") as caught:
        await weights_of(client)
    assert caught.value.extra["unknown_dtypes"] == ["Q7_X"]


async def test_nothing_says_it(hub: FakeHub, client: HubClient) -> None:
    assert await weights_of(client) == (None, "unknown")


async def test_mistral_weights_are_in_consolidated_files(hub: FakeHub, client: HubClient) -> None:
    params = {"dim": 64, "n_layers": 2, "n_heads": 4}
    content = safetensors_bytes(TENSORS)
    hub.add("org/model", {"params.json": params, "consolidated.safetensors": content})
    assert await weights_of(client) == (240, "safetensors")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, b"\xff" * 20, (9).to_bytes(8, "little") + b"{}"]
)
async def test_a_safetensors_file_that_is_none(
    hub: FakeHub, client: HubClient, content: bytes
) -> None:
    hub.add("org/model", {"config.json": LLAMA, SINGLE: content})
    with pytest.raises(HubBadAnswer, match=r"model\.safetensors"):
        await weights_of(client)


async def test_a_gguf_file_as_a_model(hub: FakeHub, client: HubClient) -> None:
    content = gguf_bytes(GGUF_MODEL, GGUF_TENSORS)
    hub.add("org/gguf", {"m-Q8_0.gguf": content, "mmproj-F16.gguf": content})
    files = await client.fetch_model("org/gguf")
    assert files.commit == COMMIT
    assert files.config == {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "max_position_embeddings": 8192,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "tie_word_embeddings": True,
    }
    weights = await client.fetch_weights(files)
    assert (weights.total_bytes, weights.source) == (GGUF_TOTAL, "gguf")


async def test_of_several_gguf_files_none_is_chosen(hub: FakeHub, client: HubClient) -> None:
    content = gguf_bytes(GGUF_MODEL, GGUF_TENSORS)
    hub.add("org/gguf", {"m-Q4.gguf": content, "m-Q8.gguf": content})
    with pytest.raises(NoModelFiles) as caught:
        await client.fetch_model("org/gguf")
    assert caught.value.extra["files"] == ["m-Q4.gguf", "m-Q8.gguf"]
    files = await client.fetch_model("org/gguf", gguf_file="m-Q8.gguf")
    assert files.gguf is not None
    assert files.gguf.tensor_bytes == GGUF_TOTAL
    with pytest.raises(NoModelFiles, match=r"m-Q2\.gguf"):
        await client.fetch_model("org/gguf", gguf_file="m-Q2.gguf")


async def test_the_parts_of_a_split_gguf_add_up(hub: FakeHub, client: HubClient) -> None:
    first = gguf_bytes(GGUF_MODEL, GGUF_TENSORS)
    second = gguf_bytes([], [("output.weight", [256, 1000], 8)])
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    hub.add("org/gguf", dict(zip(names, (first, second), strict=True)))
    files = await client.fetch_model("org/gguf")
    assert files.gguf is not None
    assert files.gguf.filename == names[0]
    assert files.gguf.tensor_bytes == 2 * GGUF_TOTAL
    hub.add("org/half", {names[0]: first})
    with pytest.raises(HubBadAnswer, match="lacks its part"):
        await client.fetch_model("org/half")


async def test_a_gguf_header_is_read_in_growing_ranges(hub: FakeHub, client: HubClient) -> None:
    tokens = ("tokenizer.ggml.tokens", "[str]", ["x" * 92] * 25_000)
    content = gguf_bytes([*GGUF_MODEL, tokens], GGUF_TENSORS)
    hub.add("org/gguf", {"m.gguf": content}, large=frozenset({"m.gguf"}))
    files = await client.fetch_model("org/gguf")
    assert files.gguf is not None
    assert files.gguf.tensor_bytes == GGUF_TOTAL
    # 25,000 strings of 100 bytes each: beyond 2 MB, within 4 MB.
    assert [seen.headers["range"] for seen in hub.cdn.requests] == [
        "bytes=0-999999",
        "bytes=1000000-1999999",
        "bytes=2000000-3999999",
    ]


async def test_a_gguf_header_has_a_limit(hub: FakeHub, make_client: MakeClient) -> None:
    tokens = ("tokenizer.ggml.tokens", "[str]", ["x" * 92] * 25_000)
    hub.add("org/gguf", {"m.gguf": gguf_bytes([*GGUF_MODEL, tokens], GGUF_TENSORS)})
    with pytest.raises(HubBadAnswer, match="beyond 1500000 bytes"):
        await make_client(max_gguf_bytes=1_500_000).fetch_model("org/gguf")


@pytest.mark.parametrize(
    "content", [b"", b"GG", b"not a model at all", gguf_bytes(GGUF_MODEL, GGUF_TENSORS)[:-1]]
)
async def test_a_gguf_file_that_is_none(hub: FakeHub, client: HubClient, content: bytes) -> None:
    hub.add("org/gguf", {"m.gguf": content})
    with pytest.raises(HubBadAnswer, match=r"m\.gguf"):
        await client.fetch_model("org/gguf")


async def test_model_info_is_asked_for_the_counts(hub: FakeHub, client: HubClient) -> None:
    hub.add("org/open", {"config.json": LLAMA})
    weights = await client.fetch_weights(await client.fetch_model("org/open"))
    assert (weights.total_bytes, weights.source) == (None, "unknown")
    expanded = [value for key, value in hub.asked("/api/models")[-1].params if key == "expand"]
    assert "safetensors" in expanded


async def test_model_info_that_is_none(hub: FakeHub, client: HubClient) -> None:
    files = await client.fetch_model("org/model")
    hub.fault("/api/models", Fault.HTML)
    with pytest.raises(HubBadAnswer, match="is not JSON"):
        await client.fetch_weights(files)


class Counted(LocalFiles):
    """A folder that knows how many reads beyond a file's beginning are under way at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.now = self.most = 0

    async def span(self, name: str, first: int, last: int) -> bytes | None:
        if first == 0:
            return await super().span(name, first, last)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return await super().span(name, first, last)


async def test_large_headers_are_fetched_and_read_a_few_at_a_time(tmp_path: Path) -> None:
    (tmp_path / SINGLE).write_bytes(safetensors_bytes(TENSORS, padding=200_000))
    source, slots = Counted(tmp_path), asyncio.Semaphore(2)
    reads = (read_weights(source, is_params_json=False, slots=slots) for _ in range(8))
    assert {weights.total_bytes for weights in await asyncio.gather(*reads)} == {240}
    assert source.most == 2
