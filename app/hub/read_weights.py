"""What a checkpoint stores, from the cheapest published statement that settles it.

In this order: the index's total; the headers of the safetensors files; the index of PyTorch
files; the hub's own count of elements. Where nothing says it, that is the answer.
"""

import asyncio
from collections.abc import Iterable, Mapping

from app.hub.facts import WeightFacts
from app.hub.flight import together
from app.hub.info import shards, total_size, weights_from_info
from app.hub.names import filename_fault
from app.hub.read_index import Index, read_index
from app.hub.safetensors import (
    LENGTH_BYTES,
    HeaderRefused,
    StoredTensors,
    header_length,
    stored_by_dtype,
)
from app.hub.source import FileSource

MAX_SHARDS = 512
_FIRST_READ_BYTES = 100_001
_AT_ONCE = 4

Stored = Mapping[str, StoredTensors]


async def read_weights(
    source: FileSource, *, is_params_json: bool, slots: asyncio.Semaphore
) -> WeightFacts:
    """The weight facts of a model: of `consolidated*` files where params.json was its config.

    Headers beyond the first read take one of `slots`, which bounds what is held of them at once.

    Raises:
        KvmathError: the source's own, its refusal of a malformed file, or HubBadAnswer naming a
            dtype whose size is not known.
    """
    stem = "consolidated" if is_params_json else "model"
    # Whether there is one file or an index of many is not known: both questions go out at once.
    single_file = asyncio.create_task(_stored(source, f"{stem}.safetensors", slots))
    try:
        index = await read_index(source, f"{stem}.safetensors.index.json")
        total = total_size(index.content)
        if total is not None:
            return WeightFacts(total_bytes=total, source="index")
        single = await single_file
    finally:
        single_file.cancel()
        await asyncio.gather(single_file, return_exceptions=True)
    if single is not None:
        return _from_headers([single])
    if names := _usable(source, shards(index.content)):
        return _from_headers(await _stored_in_all(source, names, slots))
    return await _from_elsewhere(source, index)


async def _from_elsewhere(source: FileSource, safetensors: Index) -> WeightFacts:
    index = await read_index(source, "pytorch_model.bin.index.json")
    total = total_size(index.content)
    if total is not None:
        return WeightFacts(total_bytes=total, source="pytorch_index")
    info = await source.info()
    counted = weights_from_info(info) if info is not None else None
    if counted is not None:
        return counted
    return WeightFacts(
        total_bytes=None,
        source="unknown",
        notes=(
            "neither an index nor safetensors headers say what the weights take",
            *safetensors.notes,
            *index.notes,
        ),
    )


async def _stored_in_all(
    source: FileSource, names: tuple[str, ...], slots: asyncio.Semaphore
) -> list[Stored]:
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> Stored:
        async with turns:
            stored = await _stored(source, name, slots)
        if stored is None:
            raise source.refuse(f"the checkpoint's index names {name}, which does not exist")
        return stored

    return await together(*(one(name) for name in names))


async def _stored(source: FileSource, name: str, slots: asyncio.Semaphore) -> Stored | None:
    start = await source.span(name, 0, _FIRST_READ_BYTES - 1)
    if start is None:
        return None
    try:
        length = header_length(start)
        end = LENGTH_BYTES + length
        if end <= len(start):
            return await asyncio.to_thread(stored_by_dtype, start[LENGTH_BYTES:end], length)
        async with slots:
            header = await source.span(name, LENGTH_BYTES, end - 1) or b""
            return await asyncio.to_thread(stored_by_dtype, header, length)
    except HeaderRefused as refused:
        raise source.refuse(f"{name} {refused}") from None


def _usable(source: FileSource, names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_SHARDS:
        raise source.refuse(f"the checkpoint's index names more than {MAX_SHARDS} files")
    if any(filename_fault(name) or not name.endswith(".safetensors") for name in names):
        raise source.refuse("the checkpoint's index names a file that is no safetensors file")
    return names


def _from_headers(headers: Iterable[Stored]) -> WeightFacts:
    taken: dict[str, int] = {}
    elements: dict[str, int] = {}
    for header in headers:
        for dtype, stored in header.items():
            taken[dtype] = taken.get(dtype, 0) + stored.bytes
            elements[dtype] = elements.get(dtype, 0) + stored.elements
    return WeightFacts(
        total_bytes=sum(taken.values()),
        source="safetensors",
        bytes_by_dtype=taken,
        elements_by_dtype=elements,
    )
