"""How the process handles its memory while it serves."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# malloc.h of glibc
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 128 * 1024


@contextmanager
def steady_memory() -> Iterator[None]:
    """While serving: what was made at the start lives on, and requests leave few cycles behind."""
    _give_large_blocks_back()
    usual = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()


def _give_large_blocks_back() -> None:
    """Have large blocks mapped one by one, so that they go back to the system when freed.

    glibc begins so and gives it up after the first: under mixed load the holes that bodies leave
    in the heap then double the process. Other C libraries have no such switch.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
