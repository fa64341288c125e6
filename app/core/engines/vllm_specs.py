"""What vLLM 0.33 allocates for each layer: one block's bytes, and the blocks of a request.

The engine's `KVCacheSpec` classes (`v1/kv_cache_interface.py`) as one frozen record. Layers with
equal specs stand together with their indices.
"""

from dataclasses import dataclass, replace
from typing import Literal

from app.errors import InputError

Kind = Literal["full", "mla", "window", "window_mla", "chunk", "state", "cross"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSpec:
    """One layer's cache.

    Attributes:
        block_size: Tokens a block.
        page_bytes: Bytes of one block of one layer, padding included.
        content: What a token's entry consists of; layers are alike only where it is equal.
        window: Window of `window` kinds, chunk of `chunk`; on `full` what was given up for
            allocation.
        retained: Tokens a window keeps beyond itself.
        fixed_blocks: Blocks of a `state`, whatever the context.
    """

    kind: Kind
    block_size: int
    page_bytes: int
    content: tuple[object, ...]
    window: int | None = None
    retained: int = 0
    fixed_blocks: int = 0
    padded: bool = False

    @property
    def is_full(self) -> bool:
        """Whether every token keeps its entry."""
        return self.kind in ("full", "mla")

    @property
    def merge_key(self) -> tuple[object, ...]:
        """What has to be equal for two specs to share a group: all but the window that a full
        allocation remembers.
        """
        if self.kind == "full":
            return ("full", self.block_size, self.page_bytes, self.content, self.padded)
        return (
            self.kind,
            self.block_size,
            self.page_bytes,
            self.content,
            self.window,
            self.retained,
            self.fixed_blocks,
            self.padded,
        )

    def same_type(self, other: "LayerSpec") -> bool:
        """Whether both always need the same number of blocks, so that one block table does."""
        if self.block_size != other.block_size:
            return False
        if self.is_full:
            return other.is_full
        if self.kind == "state":
            return (
                other.kind == "state"
                and self.fixed_blocks == other.fixed_blocks
                and self.page_bytes == other.page_bytes
            )
        if self.kind == "window":
            return other.kind in ("window", "window_mla") and self.window == other.window
        return self.kind == other.kind and self.window == other.window

    def with_page(self, page_bytes: int) -> "LayerSpec":
        """The same layer with its block widened to `page_bytes`: by more tokens where that is
        whole, else by padding, which latent caches do not allow.
        """
        if self.page_bytes == page_bytes:
            return self
        ratio, rest = divmod(page_bytes, self.page_bytes)
        if self.kind == "state" or (rest and self.kind != "mla"):
            return replace(self, page_bytes=page_bytes, padded=True)
        if rest:
            raise MixedPages
        return replace(self, page_bytes=page_bytes, block_size=self.block_size * ratio)


class MixedPages(Exception):
    """Pages of a model that neither more tokens nor padding brings to one size."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers of one spec, by index in order."""

    spec: LayerSpec
    indices: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many."""
        return len(self.indices)


def merge_equal(layers: list[Layers]) -> tuple[Layers, ...]:
    """Layers of equal spec together, in order of first appearance in the model."""
    by_spec: dict[LayerSpec, tuple[int, ...]] = {}
    for entry in layers:
        before = by_spec.get(entry.spec)
        if before is None:
            by_spec[entry.spec] = entry.indices
        else:
            by_spec[entry.spec] = tuple(sorted(before + entry.indices))
    return tuple(Layers(spec, indices) for spec, indices in by_spec.items())


def promote_windows(layers: tuple[Layers, ...]) -> tuple[Layers, ...]:
    """What `--disable-hybrid-kv-cache-manager` does: windows and chunks are allocated in full.

    Raises `InputError` where the engine can't bring the layers to one type.
    """
    if is_one_type(layers):
        return layers
    full_sizes = {entry.spec.block_size for entry in layers if entry.spec.is_full}
    promoted = []
    for entry in layers:
        spec = entry.spec
        if full_sizes and spec.kind == "window_mla":
            raise _cannot_disable("its compressed caches have no other form (a defect of 0.33)")
        if full_sizes and spec.kind in ("window", "chunk"):
            block = next(iter(full_sizes)) if len(full_sizes) == 1 else spec.block_size
            page = spec.page_bytes * block // spec.block_size
            spec = replace(spec, kind="full", block_size=block, page_bytes=page, retained=0)
        promoted.append(Layers(spec, entry.indices))
    result = merge_equal(promoted)
    if not is_one_type(result):
        raise _cannot_disable("its layers need different numbers of blocks")
    windows = {entry.spec.window for entry in result} - {None}
    if len(windows) > 1 and all(entry.spec.kind == "full" for entry in result):
        raise _cannot_disable("its windows differ")
    return result


def is_one_type(layers: tuple[Layers, ...]) -> bool:
    """Whether one block table serves all layers."""
    first = layers[0].spec
    return all(first.same_type(entry.spec) for entry in layers[1:])


def _cannot_disable(why: str) -> InputError:
    return InputError.of(
        "disable_hybrid_kv_cache_manager",
        f"vLLM can't start this model without its hybrid cache manager: {why}",
        type="engine_refuses",
    )
