"""An accelerator as the formulas and the engines need it: three memories, bandwidth, peaks."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

MemoryBasis = Literal["memory_bytes_cuda", "memory_bytes_reported", "memory_bytes"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One device, as the software sees it (a die where a package shows two, a MIG slice).

    Attributes:
        id: Catalogue id (`h100-sxm-80gb`, a slice `h100-sxm-80gb:1g.10gb`), or `custom`.
        name: The product's name.
        driver_name: The device name that the driver prints, which engines look at.
        vendor: `NVIDIA`, `AMD`, ...
        architecture: `Hopper`, `CDNA 3`, ...
        memory_bytes: As sold: the marketing number in decimal bytes (80 GB = 80e9), which
            formula (4) takes.
        memory_bytes_reported: Total that the driver reports, or None where not known.
        memory_bytes_cuda: Total that a process sees (cudaMemGetInfo, hipMemGetInfo), which
            engines take; None where not known.
        memory_bandwidth_bytes_per_s: As sold, or None where not known.
        memory_type: `HBM3`, `GDDR7`, ...
        unified_memory: One memory for CPU and GPU.
        compute_capability: (major, minor) of an NVIDIA device.
        dense_peaks: Precision name to dense flop/s, without sparsity.
        dtypes: Number formats that the matrix units take.
        interconnect_bytes_per_s: Scale-up link of one device, one way.
        interconnect_pair_bytes_per_s: The same between two devices, where that is less.
        gpus_per_node: Devices under one operating system, where the product fixes it.
        max_scaleup_gpus: Devices that one scale-up network joins.
        mig_profile: Profile of a slice, or None for a whole device.
        source: Where the figures are from: the catalogue, or the request.
    """

    id: str
    name: str
    memory_bytes: int
    driver_name: str | None = None
    vendor: str | None = None
    architecture: str | None = None
    memory_bytes_reported: int | None = None
    memory_bytes_cuda: int | None = None
    memory_bandwidth_bytes_per_s: int | None = None
    memory_type: str | None = None
    unified_memory: bool = False
    compute_capability: tuple[int, int] | None = None
    dense_peaks: tuple[tuple[str, int], ...] = ()
    dtypes: frozenset[str] = field(default_factory=frozenset)
    interconnect_bytes_per_s: int | None = None
    interconnect_pair_bytes_per_s: int | None = None
    gpus_per_node: int | None = None
    max_scaleup_gpus: int | None = None
    mig_profile: str | None = None
    source: Literal["catalogue", "request"] = "catalogue"

    @property
    def visible_memory_basis(self) -> MemoryBasis:
        """Which of the three memories `visible_memory_bytes` is: the last one that is known."""
        if self.memory_bytes_cuda is not None:
            return "memory_bytes_cuda"
        if self.memory_bytes_reported is not None:
            return "memory_bytes_reported"
        return "memory_bytes"

    @property
    def visible_memory_bytes(self) -> int:
        """Bytes that a process sees, as far as known: the total that engines multiply."""
        return self.memory_bytes_cuda or self.memory_bytes_reported or self.memory_bytes

    def dense_peak(self, precision: str) -> int | None:
        """Dense flop/s at a precision (`bf16`, `fp8`, ...), or None where not known."""
        return dict(self.dense_peaks).get(precision)


@dataclass(frozen=True, kw_only=True, slots=True)
class MigProfile:
    """A slice that a GPU can be cut into (Multi-Instance GPU).

    Attributes:
        profile: The vendor's name, `1g.10gb`: compute slices and memory in GB.
        memory_fraction: Share of the memory, with its controllers and so of its bandwidth.
        compute_fraction: Share of the multiprocessors.
        max_instances: How many fit on one GPU.
        memory_bytes_listed: What the driver lists for the profile, or None where not known.
    """

    profile: str
    memory_fraction: Fraction
    compute_fraction: Fraction
    max_instances: int
    memory_bytes_listed: int | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes as the name sells them: `1g.10gb` is 10e9."""
        return int(self.profile.partition(".")[2].removesuffix("gb")) * 10**9
