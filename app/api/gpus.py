"""The accelerators that can be named in a request."""

from functools import cache
from typing import Annotated

from fastapi import Path, Query

from app.api.routing import api_router
from app.catalog.gpus import MAX_NAME, GpuEntry, gpu_catalogue
from app.schemas.gpus import GpuDetail, GpuList, GpusQuery, GpuSummary, stamp

router = api_router("gpus")

GpuName = Annotated[
    str,
    Path(
        alias="id",
        max_length=MAX_NAME,
        description="Id, alias, driver name, Kubernetes label, or a MIG slice (`h100:1g.10gb`).",
        examples=["h100-sxm-80gb"],
    ),
]


@router.get("/gpus", summary="Accelerators, filtered")
async def gpus(query: Annotated[GpusQuery, Query()]) -> GpuList:
    """All that pass every filter, with their figures; sources are at `/gpus/{id}`."""
    found = [_summary(entry) for entry in gpu_catalogue().entries if _passes(entry, query)]
    return GpuList(count=len(found), gpus=found, catalogue=stamp(gpu_catalogue()))


@router.get("/gpus/{id}", summary="One accelerator with its sources")
async def gpu(name: GpuName) -> GpuDetail:
    """Every figure with its source and the date it was checked; an unknown name answers 404 with
    the three nearest.
    """
    return GpuDetail.of(gpu_catalogue().find(name), gpu_catalogue())


@cache
def _summaries() -> dict[str, GpuSummary]:
    known = GpuSummary.model_fields.keys()
    return {
        entry.gpu.id: GpuSummary.model_validate({k: entry.facts[k] for k in known})
        for entry in gpu_catalogue().entries
    }


def _summary(entry: GpuEntry) -> GpuSummary:
    return _summaries()[entry.gpu.id]


def _passes(entry: GpuEntry, query: GpusQuery) -> bool:
    gpu, facts = entry.gpu, entry.facts
    names = [
        *(facts[field] for field in ("id", "name", "vendor", "architecture")),
        *entry.aliases,
        *entry.family_aliases,
    ]
    return (
        _same(query.vendor, facts["vendor"])
        and (
            query.architecture is None
            or facts["architecture"].lower().startswith(query.architecture.lower())
        )
        and _same(query.memory_type, facts["memory_type"])
        and _same(query.status, facts["status"])
        and query.unified_memory in {None, gpu.unified_memory}
        and (query.min_memory_bytes or 0) <= gpu.memory_bytes
        and gpu.memory_bytes <= (query.max_memory_bytes or gpu.memory_bytes)
        and (query.dtype is None or query.dtype in gpu.dtypes)
        and all(word in " ".join(names).lower() for word in (query.q or "").lower().split())
    )


def _same(wanted: str | None, have: str) -> bool:
    return wanted is None or wanted.lower() == have.lower()
