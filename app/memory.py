"""How the process handles its memory while it serves."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# malloc.h of glibc
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_LARGE_BYTES = 64 * 1024


@contextmanager
def steady_memory() -> Iterator[None]:
    """While serving: what was made at the start lives on, so it is not looked at again."""
    _give_large_blocks_back()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _give_large_blocks_back() -> None:
    """Have large blocks mapped one by one, so that they go back to the system when freed.

    glibc begins so and gives it up after the first: under mixed load the holes that bodies leave
    in its heaps then double the process. Other C libraries have no such switches.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 2)  # a heap for each thread that ever looked at a file is waste
