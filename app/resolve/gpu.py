"""From what a request says about its GPU to the `Gpu` that formulas and engines take."""

from dataclasses import dataclass, replace
from functools import lru_cache

from app.catalog.gpus import gpu_catalogue
from app.core.hardware import Gpu
from app.errors import InputError
from app.schemas.gpus import GpuSpec
from app.schemas.request import GpuFields


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedGpu:
    """A GPU, and what its naming takes for granted."""

    gpu: Gpu
    assumptions: tuple[str, ...] = ()


def resolve_gpu(gpu: str | None, gpu_spec: GpuSpec | None = None) -> ResolvedGpu:
    """The GPU that an id, an alias, a MIG slice's name or a description means.

    Raises:
        InputError: for both or neither.
        UnknownGpu: for a name that the catalogue does not have.
    """
    if (gpu is None) == (gpu_spec is None):
        said = "not both" if gpu is not None else "one of the two"
        raise InputError.of("gpu", f"give gpu or gpu_spec, {said}")
    if gpu_spec is not None:
        return ResolvedGpu(gpu=gpu_spec.to_gpu())
    return _named(gpu or "")


@lru_cache(maxsize=1024)
def _named(name: str) -> ResolvedGpu:
    match = gpu_catalogue().find(name)
    return ResolvedGpu(gpu=match.gpu, assumptions=match.assumptions)


def requested_gpu(
    fields: GpuFields, gpu_spec: GpuSpec | None = None, *, memory_needed: bool = True
) -> ResolvedGpu | None:
    """The GPU of a request, its own figures in place of the catalogue's; None where it names none.

    Raises:
        InputError: on `gpu_memory_bytes` where only a bandwidth is given and memory is needed.
        UnknownGpu: for a name that the catalogue does not have.
    """
    memory, bandwidth = fields.gpu_memory_bytes, fields.memory_bandwidth_bytes_per_s
    if fields.gpu is None and gpu_spec is None:
        if memory is None and bandwidth is None:
            return None
        if memory is None and memory_needed:
            rule = "is needed beside memory_bandwidth_bytes_per_s"
            raise InputError.of("gpu_memory_bytes", rule, type="missing")
        custom = Gpu(
            id="custom",
            name="custom GPU",
            memory_bytes=memory or 0,
            memory_bytes_cuda=memory,
            memory_bandwidth_bytes_per_s=bandwidth,
            source="request",
        )
        return ResolvedGpu(gpu=custom)
    resolved = resolve_gpu(fields.gpu, gpu_spec)
    if memory is not None:
        changed = replace(
            resolved.gpu, memory_bytes=memory, memory_bytes_reported=None, memory_bytes_cuda=memory
        )
        resolved = replace(resolved, gpu=changed)
    if bandwidth is not None:
        changed = replace(resolved.gpu, memory_bandwidth_bytes_per_s=bandwidth)
        resolved = replace(resolved, gpu=changed)
    return resolved


def bandwidth_of(gpu: Gpu) -> int:
    """Bytes per second of the GPU's memory, for an answer that is a time.

    Raises:
        InputError: where neither the catalogue nor the request knows it.
    """
    if gpu.memory_bandwidth_bytes_per_s is None:
        rule = "is needed for a time"
        if gpu.source == "catalogue":
            rule += f"; the catalogue has no sound figure for {gpu.id}: describe the GPU instead"
        raise InputError.of("gpu_spec.memory_bandwidth_bytes_per_s", rule, type="missing")
    return gpu.memory_bandwidth_bytes_per_s
