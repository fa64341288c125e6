"""The parsers of files from strangers: right on right files, bounded and civil on all others."""

import contextlib
import json
import math
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import HubBadAnswer
from app.hub.gguf import GgufCutShort, GgufRefused, parse_gguf
from app.hub.info import read_info, shards, total_size, weights_from_info
from app.hub.safetensors import HeaderRefused, StoredTensors, header_length, stored_by_dtype
from app.hub.strict_json import MAX_DEPTH, JsonRefused, parse_object
from tests.fake_hub import gguf_bytes, safetensors_bytes

QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def read(header: bytes) -> dict[str, StoredTensors]:
    return stored_by_dtype(header, len(header))


def test_json_that_is_accepted() -> None:
    assert parse_object(b'{"a": 1, "a": 2, "b": "\\u00e4", "c": 1e3}') == {
        "a": 2,
        "b": "ä",
        "c": 1000.0,
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"1", "is not a JSON object"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": 1e999}', "beyond the range"),
        (b'{"a": "\xff"}', "is not UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "is not UTF-8"),
        (b'{"a": "\\ud800"}', "lone surrogate"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested deeper"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "nested deeper"),
        (b'{"a": [' + b"0," * 2_000_001 + b"0]}", "values"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_json_that_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(JsonRefused, match=why):
        parse_object(data)


def test_an_open_limit_is_read_as_published() -> None:
    assert parse_object(b'{"time_step_limit": [0.0, Infinity]}') == {
        "time_step_limit": [0, math.inf]
    }


def test_the_deepest_json_that_is_read() -> None:
    parse_object(b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH)


@QUICK
@given(st.binary(max_size=200) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    try:
        value = parse_object(data)
    except JsonRefused:
        return
    json.dumps(value, ensure_ascii=False).encode()  # Infinity, and no half a character


def test_a_safetensors_header_by_dtype() -> None:
    data = safetensors_bytes(
        {
            "a": ("BF16", [2, 3], 12),
            "b": ("BF16", [], 2),
            "c": ("F8_E4M3", [5], 5),
            "d": ("F4", [3], 2),
            "e": ("X9_NEW", [7], 3),
            "f": ("U8", [0, 4], 0),
        }
    )
    length = header_length(data)
    # 2*3 + 1 (a scalar) elements of two bytes; 3 four-bit elements take 2 bytes; X9 as it says.
    assert stored_by_dtype(data[8 : 8 + length], length) == {
        "BF16": StoredTensors(elements=7, bytes=14),
        "F8_E4M3": StoredTensors(elements=5, bytes=5),
        "F4": StoredTensors(elements=3, bytes=2),
        "X9_NEW": StoredTensors(elements=7, bytes=3),
        "U8": StoredTensors(elements=0, bytes=0),
    }


@pytest.mark.parametrize(
    "start", [b"", b"\x01\0\0", bytes(8), b"\xff" * 8, (25_000_001).to_bytes(8, "little")]
)
def test_a_header_length_that_is_refused(start: bytes) -> None:
    with pytest.raises(HeaderRefused):
        header_length(start)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {},
        {"dtype": 1, "shape": [], "data_offsets": [0, 1]},
        {"dtype": "x" * 33, "shape": [], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": 3, "data_offsets": [0, 3]},
        {"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]},
        {"dtype": "U8", "shape": [1], "data_offsets": [1, 0]},
        {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 2]},
        {"dtype": "U8", "shape": [1], "data_offsets": "01"},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 4]},
        {"dtype": "U8", "shape": [2**40, 2**40], "data_offsets": [0, 1]},
    ],
)
def test_a_tensor_that_is_refused(entry: Any) -> None:
    with pytest.raises(HeaderRefused):
        read(json.dumps({"t": entry}).encode())


U8 = b'"%s":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'


@pytest.mark.parametrize(
    ("header", "why"),
    [
        # The same tensor twice, two that overlap, and a hole between two.
        (b"{%s,%s}" % (U8 % (b"a", 0, 1), U8 % (b"a", 0, 1)), "overlap"),
        (
            b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},%s}' % (U8 % (b"b", 1, 2)),
            "holes",
        ),
        (b"{%s,%s}" % (U8 % (b"a", 0, 1), U8 % (b"b", 2, 3)), "holes"),
        (b"{%s}x" % (U8 % (b"a", 0, 1)), "not the JSON"),
        (b"{%s,}" % (U8 % (b"a", 0, 1)), "not the JSON"),
        (b'{"__metadata__":{"a":1}}', "not the JSON"),
        (
            b'{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":' + b"[" * 900 + b"}}",
            "not the",
        ),
        (
            b"{%s}"
            % b",".join(
                b'"%d":{"dtype":"Q%d","shape":[],"data_offsets":[%d,%d]}' % (i, i, i, i + 1)
                for i in range(65)
            ),
            "more than 64 dtypes",
        ),
    ],
)
def test_a_header_that_is_refused(header: bytes, why: str) -> None:
    with pytest.raises(HeaderRefused, match=why):
        read(header)


def test_blanks_between_the_marks_of_a_header_count_for_nothing() -> None:
    text = b' { "__metadata__" : { "a" : "}" } ,\n%s } ' % (U8 % (b"\xc3\xa4", 0, 1))
    assert read(text) == {"U8": StoredTensors(elements=1, bytes=1)}


@pytest.mark.parametrize(
    ("header", "why"),
    [
        # One shape of 1.2 million sides: their product has 76 million bits.
        (
            b'{"a":{"dtype":"ZZ","shape":[%s],"data_offsets":[0,2]}}'
            % b",".join([b"9223372036854775807"] * 1_200_000),
            "an entry beyond 1024",
        ),
        (
            b'{"a":{"dtype":"ZZ","shape":[%s],"data_offsets":[0,2]}}' % b",".join([b"9" * 18] * 40),
            r"more than 2\*\*63 elements",
        ),
        (
            b"{%s}" % b",".join(U8 % (b"%d" % i, i, i + 1) for i in range(300_001)),
            "more than 300000",
        ),
        (b'{"__metadata__":{%s}}' % b",".join(b'"%d":""' % i for i in range(300_001)), "300000"),
    ],
    ids=["sides", "product", "tensors", "metadata"],
)
def test_what_a_header_costs_is_bounded(header: bytes, why: str) -> None:
    with pytest.raises(HeaderRefused, match=why):
        read(header)


def test_a_header_takes_no_more_memory_than_its_text() -> None:
    header = b"{%s}" % b",".join(U8 % (b"%d" % i, i, i + 1) for i in range(20_000))
    tracemalloc.start()
    try:
        assert read(header) == {"U8": StoredTensors(elements=20_000, bytes=20_000)}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(header) + 100_000


@QUICK
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5) | st.binary(max_size=50))
def test_any_header_is_read_or_refused(value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        header_length(data)
        read(data)
    except HeaderRefused:
        pass


GGUF = gguf_bytes(
    [
        ("general.architecture", "str", "llama"),
        ("llama.block_count", "u32", 2),
        ("llama.attention.head_count_kv", "[i32]", [2, 4]),
        ("llama.rope.freq_base", "f32", 10000.0),
        ("flag", "bool", True),
        ("tokenizer.ggml.tokens", "[str]", ["a"] * 5000),
        ("tokenizer.ggml.scores", "[f32]", [0.0] * 5000),
        ("tokenizer.chat_template", "str", "x" * 5000),
    ],
    [
        ("token_embd.weight", [256, 1000], 12),
        ("blk.0.attn_q.weight", [256, 256], 14),
        ("output_norm.weight", [256], 0),
    ],
)


def test_a_gguf_header() -> None:
    header = parse_gguf(GGUF + b"tensors follow")
    assert header.architecture == "llama"
    assert header.metadata == {
        "general.architecture": "llama",
        "llama.block_count": 2,
        "llama.attention.head_count_kv": (2, 4),
        "llama.rope.freq_base": 10000.0,
        "flag": True,
    }
    # Q4_K: 144 bytes for 256 elements; Q6_K: 210; F32: 4 bytes each.
    assert header.bytes_by_dtype == {"Q4_K": 1000 * 144, "Q6_K": 256 * 210, "F32": 256 * 4}
    assert header.tensor_bytes == 144_000 + 53_760 + 1_024
    assert header.header_bytes == len(GGUF)


@pytest.mark.parametrize(
    "data",
    [
        b"GGML" + GGUF[4:],
        gguf_bytes([], [], version=1),
        gguf_bytes([], [], version=4),
        b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 2**40, 0),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**40),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**40),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"\xff" + bytes(40),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 13),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 9, 1),
        gguf_bytes([], [("t", [256], 99)]),
        gguf_bytes([], [("t", [255], 12)]),
        gguf_bytes([], [("t", [1] * 5, 0)]),
        gguf_bytes([], [("t", [2**63, 2**63], 0)]),
        gguf_bytes([], [("t" * 256, [1], 0)]),
        gguf_bytes([], [("t", [1], 0)] * 65_537),
    ],
)
def test_a_gguf_header_that_is_refused(data: bytes) -> None:
    with pytest.raises(GgufRefused):
        parse_gguf(data)


@pytest.mark.parametrize(
    "value",
    [struct.pack("<IIQ", 9, 1, 4096) + b"\x80" * 4096, struct.pack("<IQ", 8, 4096) + b"t" * 4096],
)
def test_what_is_kept_of_a_gguf_header_is_bounded(value: bytes) -> None:
    # A number of one byte takes 36 as an object: 24,000 such arrays took 3.9 GB.
    keys = b"".join(struct.pack("<Q", 5) + b"%05d" % key + value for key in range(300))
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 300) + keys
    with pytest.raises(GgufRefused, match="more than 1000000 bytes"):
        parse_gguf(data)


@QUICK
@given(st.integers(0, len(GGUF) - 1))
def test_a_header_cut_anywhere_asks_for_more(length: int) -> None:
    with pytest.raises(GgufCutShort):
        parse_gguf(GGUF[:length])


def test_a_length_beyond_the_data_is_not_allocated() -> None:
    claims = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k"
    for value in (
        struct.pack("<IQ", 8, 2**62),
        struct.pack("<IIQ", 9, 8, 2**62),
        struct.pack("<IIQ", 9, 10, 2**62),
    ):
        with pytest.raises(GgufCutShort):
            parse_gguf(claims + value)


@QUICK
@given(st.data())
def test_any_damaged_gguf_is_read_or_refused(data: st.DataObject) -> None:
    damaged = bytearray(GGUF)
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, 200))] = data.draw(st.integers(0, 255))
    for candidate in (
        bytes(damaged),
        data.draw(st.binary(max_size=100)),
        b"GGUF" + data.draw(st.binary(max_size=100)),
    ):
        with contextlib.suppress(GgufRefused, GgufCutShort):
            parse_gguf(candidate)


@pytest.mark.parametrize(
    ("value", "total"),
    [
        (100, 100),
        (55562855904.0, 55_562_855_904),
        (1.5, None),
        (-1, None),
        (0, None),
        (True, None),
        ("100", None),
        (2**61, None),
        (None, None),
    ],
)
def test_the_total_of_an_index(value: Any, total: int | None) -> None:
    assert total_size({"metadata": {"total_size": value}}) == total


@pytest.mark.parametrize("index", [{}, {"metadata": None}, {"metadata": [1]}, {"weight_map": [1]}])
def test_an_index_that_says_nothing(index: dict[str, Any]) -> None:
    assert total_size(index) is None
    assert shards(index) == ()


def info(parameters: Any) -> dict[str, Any]:
    return {"id": "o/n", "safetensors": {"parameters": parameters}}


def test_weights_from_counts_of_elements() -> None:
    # gpt-oss-120b as the hub counts it: BF16 at 2 bytes, packed U8 at 1.
    counted = weights_from_info(read_info(info({"BF16": 2_167_371_072, "U8": 118_244_966_400})))
    assert counted is not None
    assert counted.total_bytes == 2 * 2_167_371_072 + 118_244_966_400
    assert weights_from_info(read_info({"id": "o/n"})) is None


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"Q" * 33: 1}, "longer names"),
        ({f"Q{number}": 1 for number in range(65)}, "more dtypes"),
        ({"Q9": 1}, "'Q9'"),
        ({"BF16": -1}, "no whole number"),
        ({"BF16": 1.5}, "no whole number"),
    ],
)
def test_counts_that_are_refused(parameters: Any, why: str) -> None:
    with pytest.raises(HubBadAnswer, match=why):
        weights_from_info(read_info(info(parameters)))


def test_what_the_hub_says_of_a_model_is_kept_short() -> None:
    told = read_info(
        {
            "id": "o/n",
            "config": {"architectures": ["A" * 1_000_000] * 17},
            "siblings": [
                {"rfilename": name}
                for name in ("m.gguf", "../m.gguf", "/m.gguf", "m" * 508 + ".gguf", "a/m.gguf")
            ],
        }
    )
    assert told.architectures == ("A" * 200,) * 16
    # Names that are no path inside the repository, or longer than 512 characters, are none.
    assert told.files == ("m.gguf", "a/m.gguf")


@QUICK
@given(
    st.dictionaries(
        st.sampled_from(
            ["id", "sha", "gated", "siblings", "config", "safetensors", "metadata", "weight_map"]
        ),
        JSON_VALUES,
    )
)
def test_any_answer_is_read_or_refused(answer: dict[str, Any]) -> None:
    total_size(answer)
    shards(answer)
    with contextlib.suppress(HubBadAnswer):
        weights_from_info(read_info(answer))
