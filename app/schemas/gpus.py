"""Accelerators as requests give them and answers show them: the fields of the catalogue."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from app.catalog.gpus import GpuCatalogue, GpuMatch, parse_capability
from app.core.hardware import Gpu
from app.schemas.types import AnswerModel, BodyModel, Count, Flag, QueryModel, Whole

MatrixDtype = Literal["fp16", "bf16", "tf32", "fp8", "fp6", "fp4", "int8"]
PeakName = Literal["fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"]
Word = Annotated[str, Field(min_length=1, max_length=100)]
Peak = Annotated[int, Whole(1, 10**18)]
Capability = Annotated[str, Field(pattern=r"^[0-9]{1,2}\.[0-9]$", examples=["9.0"])]


class Interconnect(AnswerModel):
    """The scale-up link of one device."""

    name: str
    one_way_bytes_per_s: int | None = Field(description="What collective arithmetic takes.")
    as_sold_bytes_per_s: int | None = Field(description="Both directions, as vendors print it.")
    pair_one_way_bytes_per_s: int | None = Field(
        None, description="Between any two devices, where that is less than the whole."
    )


class Pcie(AnswerModel):
    """The host link."""

    generation: int
    lanes: int | None


class MigSlice(AnswerModel):
    """A slice that the GPU can be cut into; `{id}:{profile}` names it wherever a GPU is named."""

    profile: str
    memory_fraction: str
    compute_fraction: str
    max_instances: int
    memory_bytes_listed: int | None = Field(description="As the driver lists the profile.")


class PriceExample(AnswerModel):
    """What one provider asked on one day: an example, too old to answer a cost question."""

    provider: str
    usd_per_gpu_hour_low: float
    usd_per_gpu_hour_high: float
    date: str
    source: str


class FigureFlag(AnswerModel):
    """Why some figures should be read with care, or are missing."""

    figures: list[str]
    flag: str
    note: str


class FigureSource(AnswerModel):
    """Where some figures are from, and when they were checked."""

    figures: list[str]
    read: list[str]
    checked: str
    cited: list[str] | None = Field(
        None, description="Datasheets that the sources cite and that were not opened."
    )


class CatalogueStamp(AnswerModel):
    """The edition that an answer rests on."""

    version: str
    digest: str = Field(description="SHA-256 of the catalogue file.")


class GpuSummary(AnswerModel):
    """The figures of one accelerator. `null` means that no sound figure is known."""

    id: str
    name: str
    driver_name: str | None = Field(description="Device name that the driver prints.")
    vendor: str
    architecture: str
    status: Literal["shipping", "announced"]
    compute_capability: str | None
    memory_type: str
    unified_memory: bool = Field(description="One memory for CPU and GPU.")
    memory_bytes: int = Field(description="As sold, in decimal GB: 80 GB is 80000000000.")
    memory_bytes_reported: int | None = Field(description="Total that the driver reports.")
    memory_bytes_cuda: int | None = Field(
        description="Total that a process sees (cudaMemGetInfo and its like): what engines use."
    )
    memory_bandwidth_bytes_per_s: int | None
    dense_peak_flop_per_s: dict[str, int] = Field(description="Without sparsity, by precision.")
    dtypes: list[MatrixDtype]
    interconnect: Interconnect | None
    gpus_per_node: int | None
    max_scaleup_gpus: int
    tdp_watts: int | None
    confidence: Literal["high", "medium", "low"]


class GpuDetail(GpuSummary):
    """One accelerator, or one slice of it, with everything that is known about its figures."""

    launch_year: int
    gfx_target: str | None = None
    memory_bandwidth_expected_bytes_per_s: int | None = Field(
        None, description="What the driver's clocks and bus allow, where that is below the label."
    )
    memory_bandwidth_measured_bytes_per_s: int | None = Field(
        None, description="Best published streaming kernel."
    )
    fp8_format: str | None = Field(None, description="`ocp` or `fnuz`, where it was stated.")
    pcie: Pcie | None
    part_of: str | None = Field(None, description="The whole GPU, where this is a slice.")
    mig_profile: str | None = None
    mig_profiles: list[MigSlice] = Field([])
    price_examples: list[PriceExample] = Field([])
    aliases: list[str] = Field([], description="Other names of this product alone.")
    family_aliases: list[str] = Field(
        [], description="Names of several products that are taken to mean this one."
    )
    flags: list[FigureFlag] = Field([])
    sources: list[FigureSource]
    assumptions: list[str] = Field([])
    catalogue: CatalogueStamp

    @classmethod
    def of(cls, match: GpuMatch, catalogue: GpuCatalogue) -> Self:
        """The record behind a name; for a slice, its own figures over those of the whole."""
        gpu = match.gpu
        own: Mapping[str, Any] = {}
        if gpu.mig_profile is not None:
            own = {
                "id": gpu.id,
                "name": gpu.name,
                "driver_name": gpu.driver_name,
                "memory_bytes": gpu.memory_bytes,
                "memory_bytes_reported": gpu.memory_bytes_reported,
                "memory_bytes_cuda": gpu.memory_bytes_cuda,
                "memory_bandwidth_bytes_per_s": gpu.memory_bandwidth_bytes_per_s,
                "memory_bandwidth_expected_bytes_per_s": None,
                "memory_bandwidth_measured_bytes_per_s": None,
                "dense_peak_flop_per_s": dict(gpu.dense_peaks),
                "interconnect": None,
                "gpus_per_node": None,
                "max_scaleup_gpus": 1,
                "tdp_watts": None,
                "part_of": match.entry.gpu.id,
                "mig_profile": gpu.mig_profile,
                "mig_profiles": [],
                "price_examples": [],
                "aliases": [],
                "family_aliases": [],
            }
        return cls.model_validate(
            {
                **match.entry.facts,
                **own,
                "assumptions": list(match.assumptions),
                "catalogue": stamp(catalogue),
            }
        )


class GpuList(AnswerModel):
    """Accelerators that a filter leaves, in the order of the catalogue."""

    count: int
    gpus: list[GpuSummary]
    catalogue: CatalogueStamp


class GpusQuery(QueryModel):
    """Filters; each narrows the list. Text is compared without regard to case."""

    q: Word | None = Field(None, description="Words that id, names, maker or architecture contain.")
    vendor: Word | None = Field(None, examples=["nvidia"])
    architecture: Word | None = Field(None, description="As listed, or its beginning.")
    memory_type: Word | None = None
    status: Literal["shipping", "announced"] | None = None
    unified_memory: Flag | None = None
    min_memory_bytes: Count | None = Field(None, description="Of the memory as sold.")
    max_memory_bytes: Count | None = Field(None, description="Of the memory as sold.")
    dtype: MatrixDtype | None = Field(None, description="A format that the matrix units take.")


class LinkSpec(BodyModel):
    """The scale-up link of a described GPU."""

    name: Word | None = None
    one_way_bytes_per_s: Count | None = None
    as_sold_bytes_per_s: Count | None = None
    pair_one_way_bytes_per_s: Count | None = None


class GpuSpec(BodyModel):
    """A GPU described in the request: its memory, and as much else as the answer needs.

    A record that `/gpus/{id}` answered can be sent back with some figures changed; what no
    calculation uses (sources, prices, aliases) is passed over.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"memory_bytes": 80000000000, "memory_bandwidth_bytes_per_s": 3350000000000}
            ]
        }
    )

    memory_bytes: Count = Field(description="As sold; formula (4) takes it as it stands.")
    memory_bandwidth_bytes_per_s: Count | None = Field(
        None, description="Needed where a time is asked for."
    )
    name: Word = "custom GPU"
    driver_name: Word | None = None
    vendor: Word | None = None
    architecture: Word | None = None
    compute_capability: Capability | None = None
    memory_type: Word | None = None
    unified_memory: Flag = False
    memory_bytes_reported: Count | None = None
    memory_bytes_cuda: Count | None = Field(
        None, description="What engines multiply; `memory_bytes` where left out."
    )
    dense_peak_flop_per_s: dict[PeakName, Peak] = Field({})
    dtypes: list[MatrixDtype] = Field([], max_length=20)
    interconnect: LinkSpec | None = None
    gpus_per_node: Count | None = None
    max_scaleup_gpus: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_what_is_not_used(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v for k, v in value.items() if k not in _NOT_USED}
        return value

    def to_gpu(self) -> Gpu:
        """The same for the core."""
        link = self.interconnect or LinkSpec()
        capability = self.compute_capability
        return Gpu(
            id="custom",
            name=self.name,
            driver_name=self.driver_name,
            vendor=self.vendor,
            architecture=self.architecture,
            memory_bytes=self.memory_bytes,
            memory_bytes_reported=self.memory_bytes_reported,
            memory_bytes_cuda=self.memory_bytes_cuda,
            memory_bandwidth_bytes_per_s=self.memory_bandwidth_bytes_per_s,
            memory_type=self.memory_type,
            unified_memory=self.unified_memory,
            compute_capability=None if capability is None else parse_capability(capability),
            dense_peaks=tuple(self.dense_peak_flop_per_s.items()),
            dtypes=frozenset(self.dtypes),
            interconnect_bytes_per_s=link.one_way_bytes_per_s,
            interconnect_pair_bytes_per_s=link.pair_one_way_bytes_per_s,
            gpus_per_node=self.gpus_per_node,
            max_scaleup_gpus=self.max_scaleup_gpus,
            source="request",
        )


_NOT_USED = frozenset(GpuDetail.model_fields) - frozenset(GpuSpec.model_fields)


def stamp(catalogue: GpuCatalogue) -> CatalogueStamp:
    """Which edition of the catalogue this is."""
    return CatalogueStamp(version=catalogue.version, digest=catalogue.digest)
