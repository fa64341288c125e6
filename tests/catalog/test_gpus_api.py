"""`/gpus`, `/gpus/{id}`, and a GPU described in a request."""

import json
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from app.catalog.gpus import gpu_catalogue
from app.errors import InputError, UnknownGpu
from app.resolve.gpu import bandwidth_of, resolve_gpu
from app.schemas.gpus import GpuSpec


async def ids(client: httpx.AsyncClient, **query: str | int) -> list[str]:
    response = await client.get("/gpus", params=query)
    assert response.status_code == 200
    body = response.json()
    assert body["count"] == len(body["gpus"])
    return [gpu["id"] for gpu in body["gpus"]]


async def test_the_list_is_the_catalogue(client: httpx.AsyncClient) -> None:
    assert await ids(client) == [entry.gpu.id for entry in gpu_catalogue().entries]


async def test_filters_narrow(client: httpx.AsyncClient) -> None:
    # AMD's from 200 GB up: MI325X 256, MI350X and MI355X 288, the announced MI455X 432.
    big = ["mi325x-256gb", "mi350x-288gb", "mi355x-288gb", "mi455x-432gb"]
    assert await ids(client, vendor="amd", min_memory_bytes=200_000_000_000) == big
    assert (
        await ids(client, vendor="AMD", min_memory_bytes=200_000_000_000, status="shipping")
        == (big[:3])
    )
    assert await ids(client, memory_type="hbm4") == ["rubin-288gb", "mi455x-432gb"]
    assert await ids(client, vendor="nvidia", unified_memory="true") == [
        "dgx-spark-gb10-128gb",
        "jetson-agx-orin-64gb",
        "jetson-orin-nano-8gb",
        "jetson-thor-t5000-128gb",
    ]
    assert await ids(client, q="rtx 4090") == ["rtx-4090-24gb"]
    assert await ids(client, q="4090", dtype="fp4") == []
    assert await ids(client, architecture="hopper", max_memory_bytes=80_000_000_000) == [
        "h100-pcie-80gb",
        "h100-sxm-80gb",
        "h800-sxm-80gb",
    ]
    assert await ids(client, vendor="acme") == []
    assert await ids(client, min_memory_bytes=2, max_memory_bytes=1) == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"min_memory_bytes": 0}, "min_memory_bytes"),
        ({"dtype": "fp3"}, "dtype"),
        ({"vendor": ""}, "vendor"),
        ({"maker": "amd"}, "maker"),
        ({"unified_memory": "maybe"}, "unified_memory"),
    ],
)
async def test_bad_filters_are_named(
    client: httpx.AsyncClient, query: dict[str, str | int], field: str
) -> None:
    response = await client.get("/gpus", params=query)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["errors"][0]["loc"][-1] == field


async def test_one_gpu_with_its_sources(client: httpx.AsyncClient) -> None:
    body = (await client.get("/gpus/NVIDIA H100 80GB HBM3")).json()
    assert body["id"] == "h100-sxm-80gb"
    assert body["memory_bytes"] == 80_000_000_000
    assert body["memory_bytes_reported"] == 81559 * 2**20
    assert body["memory_bytes_cuda"] == 81089 * 2**20
    assert body["interconnect"]["one_way_bytes_per_s"] == 450_000_000_000
    assert all(row["checked"] == "2026-11-29" for row in body["sources"])
    assert body["catalogue"] == {
        "version": gpu_catalogue().version,
        "digest": gpu_catalogue().digest,
    }
    assert body["assumptions"] == []


async def test_an_alias_says_what_it_is_taken_for(client: httpx.AsyncClient) -> None:
    body = (await client.get("/gpus/h100")).json()
    assert body["id"] == "h100-sxm-80gb"
    assert "several products" in body["assumptions"][0]


async def test_a_slice_is_a_gpu(client: httpx.AsyncClient) -> None:
    body = (await client.get("/gpus/h100:1g.10gb")).json()
    assert body["id"] == "h100-sxm-80gb:1g.10gb"
    assert body["part_of"] == "h100-sxm-80gb"
    assert body["memory_bandwidth_bytes_per_s"] == 418_750_000_000
    assert body["interconnect"] is None


async def test_every_gpu_and_slice_answers(client: httpx.AsyncClient) -> None:
    for entry in gpu_catalogue().entries:
        slices = [f"{entry.gpu.id}:{profile.profile}" for profile in entry.mig_profiles]
        for name in (entry.gpu.id, *slices):
            response = await client.get(f"/gpus/{name}")
            assert response.status_code == 200, name
            assert response.json()["id"] == name


async def test_unknown_is_a_404_with_the_three_nearest(client: httpx.AsyncClient) -> None:
    response = await client.get("/gpus/rtx-4091")
    assert response.status_code == 404
    body = response.json()
    assert body["title"] == "Unknown GPU"
    assert len(body["nearest"]) == 3
    assert "rtx-4090-24gb" in body["nearest"]


@pytest.mark.parametrize("path", ["/gpus", "/gpus/h100"])
async def test_head_is_get_without_a_body(client: httpx.AsyncClient, path: str) -> None:
    get, head = await client.get(path), await client.head(path)
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["etag"] == get.headers["etag"]


def spec(**fields: Any) -> GpuSpec:
    return GpuSpec.model_validate_json(json.dumps({"memory_bytes": 80_000_000_000, **fields}))


def test_a_described_gpu_needs_its_memory_alone() -> None:
    gpu = resolve_gpu(None, spec()).gpu
    assert (gpu.id, gpu.source, gpu.memory_bytes) == ("custom", "request", 80_000_000_000)
    assert gpu.visible_memory_bytes == 80_000_000_000


def test_a_time_needs_the_bandwidth() -> None:
    assert bandwidth_of(spec(memory_bandwidth_bytes_per_s=10**12).to_gpu()) == 10**12
    with pytest.raises(InputError) as refused:
        bandwidth_of(spec().to_gpu())
    assert refused.value.errors[0].loc == ("gpu_spec", "memory_bandwidth_bytes_per_s")
    with pytest.raises(InputError, match="no sound figure for h20-3e-141gb"):
        bandwidth_of(resolve_gpu("h20-3e").gpu)


def test_one_gpu_and_one_only() -> None:
    assert resolve_gpu("h100").gpu.id == "h100-sxm-80gb"
    with pytest.raises(InputError, match="not both"):
        resolve_gpu("h100", spec())
    with pytest.raises(InputError, match="one of the two"):
        resolve_gpu(None, None)
    with pytest.raises(UnknownGpu):
        resolve_gpu("")


async def test_an_answered_record_can_be_sent_back(client: httpx.AsyncClient) -> None:
    for entry in gpu_catalogue().entries:
        record = (await client.get(f"/gpus/{entry.gpu.id}")).json()
        gpu = GpuSpec.model_validate_json(json.dumps(record)).to_gpu()
        for field in (
            "memory_bytes",
            "memory_bytes_reported",
            "memory_bytes_cuda",
            "memory_bandwidth_bytes_per_s",
            "compute_capability",
            "dense_peaks",
            "dtypes",
            "interconnect_bytes_per_s",
            "interconnect_pair_bytes_per_s",
            "gpus_per_node",
            "max_scaleup_gpus",
            "unified_memory",
        ):
            assert getattr(gpu, field) == getattr(entry.gpu, field), (entry.gpu.id, field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_bytes", True),
        ("memory_bytes", "80000000000"),
        ("memory_bytes", 0),
        ("memory_bytes", 2**53),
        ("memory_bandwidth_bytes_per_s", -1),
        ("memory_bandwith_bytes_per_s", 1),
        ("compute_capability", "nine"),
        ("dtypes", ["fp3"]),
        ("dense_peak_flop_per_s", {"bf17": 1}),
        ("interconnect", 450_000_000_000),
        ("name", ""),
    ],
)
def test_a_bad_description_names_the_field(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(**{field: value})
    assert refused.value.errors()[0]["loc"][0] == field
