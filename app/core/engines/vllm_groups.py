"""How vLLM 0.33 puts layers into groups that share a block table.

`v1/core/kv_cache_planning.py`, `get_kv_cache_groups`, in its order of tests: one type of layer is
one group; packed layouts mix pages inside a block; otherwise all pages are brought to one size and
every kind of layer is cut into groups of one length.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from app.core.engines.vllm_specs import Layers, LayerSpec, MixedPages, is_one_type
from app.errors import InputError


@dataclass(frozen=True, slots=True)
class Group:
    """Layers with one block table; `entries` are its specs."""

    entries: tuple[Layers, ...]

    @property
    def count(self) -> int:
        """Layers in the group."""
        return sum(entry.count for entry in self.entries)

    @property
    def block_bytes(self) -> int:
        """Bytes one block takes in all layers of the group."""
        return sum(entry.spec.page_bytes * entry.count for entry in self.entries)

    def block_bytes_of(self, layers: range) -> int:
        """The same, counting only layers of one pipeline stage."""
        return sum(
            entry.spec.page_bytes * sum(index in layers for index in entry.indices)
            for entry in self.entries
        )


def group_layers(layers: tuple[Layers, ...], *, packed: bool, few_more: float) -> tuple[Group, ...]:
    """Groups in the engine's order. Without cached layers there are none.

    `packed`: the model's backends keep all layers' pages of a block side by side (DeepSeek-V4), so
    that pages may differ in size. A kind with fewer than `few_more` times the layers of the
    smallest sets the groups' length.
    """
    if not layers:
        return ()
    if is_one_type(layers):
        return (Group(layers),)
    if packed and len({entry.spec.page_bytes for entry in layers}) > 1:
        return _packed_groups(layers)
    widest = max(entry.spec.page_bytes for entry in layers)
    try:
        unified = [Layers(entry.spec.with_page(widest), entry.indices) for entry in layers]
    except MixedPages:
        return _full_allocation(layers)
    return _equal_groups(unified, few_more)


def _equal_groups(layers: Sequence[Layers], few_more: float) -> tuple[Group, ...]:
    """Kinds of layers cut into groups of one length: that of the smallest kind, or of the largest
    where it is not much larger. Group i of n takes layers i, i + n, i + 2n, ...
    """
    buckets: dict[tuple[object, ...], list[Layers]] = {}
    for entry in layers:
        buckets.setdefault(entry.spec.merge_key, []).append(entry)
    kinds = [_as_one(bucket) for bucket in buckets.values()]
    counts = [kind.count for kind in kinds]
    length = min(counts)
    if max(counts) < length * few_more:
        length = max(counts)
    groups = []
    for kind in kinds:
        number = ceil(kind.count / length)
        groups += [Group((Layers(kind.spec, kind.indices[i::number]),)) for i in range(number)]
    return tuple(groups)


def _as_one(bucket: Sequence[Layers]) -> Layers:
    """Full layers that differ only in a remembered window count as one kind."""
    if len(bucket) == 1:
        return bucket[0]
    indices = tuple(index for entry in bucket for index in entry.indices)
    return Layers(replace(bucket[0].spec, window=None), indices)


def _full_allocation(layers: tuple[Layers, ...]) -> tuple[Group, ...]:
    """The engine's way out for latent layers beside windows: windows are allocated in full."""
    kinds = {entry.spec.kind for entry in layers}
    blocks = {entry.spec.block_size for entry in layers if entry.spec.is_full}
    if kinds <= {"full", "mla", "window"} and "window" in kinds and len(blocks) == 1:
        block = next(iter(blocks))
        return (Group(tuple(_in_full(entry, block) for entry in layers)),)
    raise InputError.of(
        "config",
        "vLLM can't bring this model's pages to one size, and refuses to start",
        type="engine_refuses",
    )


def _in_full(entry: Layers, block_size: int) -> Layers:
    spec = entry.spec
    if spec.is_full:
        return entry
    page = spec.page_bytes * block_size // spec.block_size
    return Layers(replace(spec, kind="full", block_size=block_size, page_bytes=page), entry.indices)


# --- packed layouts -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers of one type; `pages` maps a page size to the layers that have it."""

    entries: tuple[Layers, ...]
    pages: dict[int, list[tuple[LayerSpec, int]]]

    @property
    def balanced(self) -> bool:
        """As many layers of every page size, so that they repeat as a pattern."""
        return len({len(layers) for layers in self.pages.values()}) == 1

    @property
    def repeats(self) -> int:
        """Layers of the commonest page size."""
        return max(len(layers) for layers in self.pages.values())

    @property
    def count(self) -> int:
        """Layers in all."""
        return sum(entry.count for entry in self.entries)

    def widest(self, number: int) -> int:
        """Bytes of the largest of `number` groups."""
        return sum(ceil(len(layers) / number) * page for page, layers in self.pages.items())


def _packed_groups(layers: tuple[Layers, ...]) -> tuple[Group, ...]:
    buckets = _buckets(layers)
    floor = max((b.repeats for b in buckets if b.balanced and len(b.pages) > 1), default=0)
    repeats = _least_padding([b.repeats for b in buckets if b.balanced], floor) if floor else None

    def is_state(bucket: _Bucket) -> bool:
        kind = bucket.entries[0].spec.kind
        return kind == "state" or (repeats is None and kind in ("window", "window_mla"))

    def number_of(bucket: _Bucket) -> int:
        return ceil(bucket.repeats / repeats) if bucket.balanced and repeats else 1

    anchor = max(b.widest(b.count if is_state(b) else number_of(b)) for b in buckets)
    groups: list[Group] = []
    for bucket in buckets:
        number = number_of(bucket)
        if is_state(bucket):
            fitting = max(anchor // bucket.entries[0].spec.page_bytes, 1)
            number = max(number, ceil(bucket.count / fitting))
        groups += _cut(bucket, number)
    return tuple(groups)


def _buckets(layers: tuple[Layers, ...]) -> list[_Bucket]:
    kept: list[list[Layers]] = []
    for entry in layers:
        for members in kept:
            if all(members[0].spec.same_type(other.spec) for other in (*members, entry)):
                members.append(entry)
                break
        else:
            kept.append([entry])
    buckets = []
    for members in kept:
        pages: dict[int, list[tuple[LayerSpec, int]]] = {}
        for entry in members:
            pages.setdefault(entry.spec.page_bytes, []).extend(
                (entry.spec, index) for index in entry.indices
            )
        for of_page in pages.values():
            of_page.sort(key=lambda item: item[1])
        buckets.append(_Bucket(tuple(members), pages))
    return buckets


def _cut(bucket: _Bucket, number: int) -> list[Group]:
    if number == 1:
        return [Group(bucket.entries)]
    patterns = list(zip(*bucket.pages.values(), strict=False))
    groups = []
    for i in range(number):
        indices: dict[LayerSpec, list[int]] = {}
        for pattern in patterns[i::number]:
            for spec, index in pattern:
                indices.setdefault(spec, []).append(index)
        groups.append(Group(tuple(Layers(s, tuple(found)) for s, found in indices.items())))
    return groups


def _least_padding(counts: Sequence[int], floor: int) -> int:
    """The group length, at least `floor`, that pads the counts least; the larger of equals."""
    best, least = floor, None
    for length in range(floor, max(counts) + 1):
        padding = sum(-count % length for count in counts)
        if least is None or padding <= least:
            best, least = length, padding
    return best
