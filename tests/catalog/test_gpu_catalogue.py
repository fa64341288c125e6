"""The catalogue file as a whole: its schema, its sources, its names, its dense peaks."""

import json
from collections import Counter
from datetime import date
from typing import Any

import jsonschema
import pytest

from app.catalog.gpus import CATALOGUE_FILE, gpu_catalogue, normalise, read_catalogue

SCHEMA_FILE = CATALOGUE_FILE.parent / "app" / "catalog" / "gpu_catalog.schema.json"
DOCUMENT: dict[str, Any] = json.loads(CATALOGUE_FILE.read_bytes())
RECORDS: list[dict[str, Any]] = DOCUMENT["gpus"]

# What needs a source wherever it is not null.
FIGURES = (
    "memory_bytes",
    "memory_bytes_reported",
    "memory_bytes_cuda",
    "memory_bandwidth_bytes_per_s",
    "memory_bandwidth_expected_bytes_per_s",
    "memory_bandwidth_measured_bytes_per_s",
    "dense_peak_flop_per_s",
    "compute_capability",
    "interconnect",
    "pcie",
    "gpus_per_node",
    "max_scaleup_gpus",
    "tdp_watts",
    "mig_profiles",
)


def record(id_: str) -> dict[str, Any]:
    return next(r for r in RECORDS if r["id"] == id_)


def test_the_file_fits_its_schema() -> None:
    schema = json.loads(SCHEMA_FILE.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(DOCUMENT)


def test_there_are_enough_accelerators_and_no_id_twice() -> None:
    ids = [r["id"] for r in RECORDS]
    assert len(ids) >= 90
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("gpu", RECORDS, ids=lambda r: r["id"])
def test_every_figure_has_a_source_and_the_day_it_was_checked(gpu: dict[str, Any]) -> None:
    sourced = {figure for row in gpu["sources"] for figure in row["figures"]}
    assert {figure for figure in FIGURES if gpu.get(figure)} <= sourced
    for row in gpu["sources"]:
        assert row["read"] or row["cited"]
        assert date.fromisoformat(row["checked"]) <= date(2026, 11, 29)


@pytest.mark.parametrize("gpu", RECORDS, ids=lambda r: r["id"])
def test_what_is_not_known_is_said(gpu: dict[str, Any]) -> None:
    """Bandwidth or peaks left out, or an unsure record, come with a flag that says why."""
    flagged = {figure for flag in gpu["flags"] for figure in flag["figures"]}
    if gpu["memory_bandwidth_bytes_per_s"] is None:
        assert "memory_bandwidth_bytes_per_s" in flagged
    if gpu["confidence"] == "low" or gpu["status"] == "announced":
        assert flagged


def test_no_name_means_two_accelerators() -> None:
    owners: dict[str, set[str]] = {}
    for gpu in RECORDS:
        for name in (gpu["id"], *gpu["aliases"], *gpu["family_aliases"]):
            owners.setdefault(normalise(name), set()).add(gpu["id"])
    assert {name: ids for name, ids in owners.items() if len(ids) > 1} == {}
    assert "" not in owners


def test_no_accelerator_lists_a_name_twice() -> None:
    for gpu in RECORDS:
        counted = Counter(map(normalise, (*gpu["aliases"], *gpu["family_aliases"])))
        assert [name for name, count in counted.items() if count > 1] == [], gpu["id"]


def test_an_ambiguous_name_stops_the_loading() -> None:
    both = [record("a10-24gb"), {**record("a30-24gb"), "aliases": ["A-10"]}]
    document = json.dumps({"version": "2026.11.29", "gpus": both}).encode()
    with pytest.raises(ValueError, match="'A-10' means a10-24gb and a30-24gb"):
        read_catalogue(document)


def test_a_record_without_its_fields_stops_the_loading() -> None:
    with pytest.raises(ValueError, match="compute_capability"):
        read_catalogue(b'{"version": "2026.11.29", "gpus": [{"id": "x"}]}')


def test_edition_and_digest() -> None:
    assert gpu_catalogue().version == "2026.11.29"
    assert len(gpu_catalogue().digest) == 64
    assert gpu_catalogue() is gpu_catalogue()


# Dense flop/s, where datasheets print the sparse double: H100 SXM FP16 1979 and FP8 3958,
# L40S FP8 1466, L4 FP8 485, B200 FP4 18e15, GB200 FP4 20e15, GB10 "1 PFLOP", Thor 2070,
# Trainium2 2563. A100 312 and MI300X 1307.4 are dense as printed.
@pytest.mark.parametrize(
    ("id_", "precision", "dense"),
    [
        ("h100-sxm-80gb", "fp16", 989_500_000_000_000),
        ("h100-sxm-80gb", "fp8", 1_979_000_000_000_000),
        ("l40s-48gb", "fp8", 733_000_000_000_000),
        ("l4-24gb", "fp8", 242_000_000_000_000),
        ("b200-sxm-180gb", "fp4", 9_000_000_000_000_000),
        ("gb200-186gb", "fp4", 10_000_000_000_000_000),
        ("b300-sxm-288gb", "fp4", 13_500_000_000_000_000),
        ("gb300-288gb", "fp4", 15_000_000_000_000_000),
        ("dgx-spark-gb10-128gb", "fp4", 500_000_000_000_000),
        ("jetson-thor-t5000-128gb", "fp4", 1_035_000_000_000_000),
        ("trainium2-96gb", "fp8", 1_299_000_000_000_000),
        ("a100-sxm-80gb", "bf16", 312_000_000_000_000),
        ("mi300x-192gb", "fp8", 2_614_900_000_000_000),
        ("mi355x-288gb", "fp4", 10_066_000_000_000_000),
        ("gaudi3-128gb", "bf16", 1_677_000_000_000_000),
        ("h20-96gb", "bf16", 148_000_000_000_000),
        # GeForce with FP32 accumulation, half of the FP16-accumulate rate
        ("rtx-4090-24gb", "bf16", 165_200_000_000_000),
        # One die of two: half of the package's 383
        ("mi250x-64gb", "bf16", 191_500_000_000_000),
    ],
)
def test_peaks_are_dense(id_: str, precision: str, dense: int) -> None:
    assert record(id_)["dense_peak_flop_per_s"][precision] == dense


def test_no_peak_without_the_format() -> None:
    # No FP8 before Hopper and Ada; no BF16 on Volta and Turing; INT8 was cut from Blackwell Ultra.
    for gpu in RECORDS:
        if gpu["vendor"] == "NVIDIA" and gpu["compute_capability"]:
            capability = float(gpu["compute_capability"])
            peaks = gpu["dense_peak_flop_per_s"]
            assert ("fp8" in peaks) <= (capability >= 8.9), gpu["id"]
            assert ("fp4" in peaks) <= (capability >= 10.0), gpu["id"]
            assert ("bf16" in peaks) <= (capability >= 8.0), gpu["id"]
            assert ("int8" in peaks) <= (capability != 10.3), gpu["id"]


# Bytes per second as sold.
@pytest.mark.parametrize(
    ("id_", "gb_per_s"),
    [
        ("h100-sxm-80gb", 3350),
        ("h100-pcie-80gb", 2000),
        ("h100-nvl-94gb", 3900),
        ("h200-sxm-141gb", 4800),
        ("a100-sxm-80gb", 2039),
        ("mi300x-192gb", 5300),
        ("mi325x-256gb", 6000),
        # 512 bit at 12481 MHz, not the workstation card's 1792
        ("rtx-pro-6000-server-96gb", 1597),
        ("rtx-pro-6000-ws-96gb", 1792),
        # half of the package's 3276.8
        ("mi250-64gb", 1638.4),
    ],
)
def test_bandwidth(id_: str, gb_per_s: float) -> None:
    assert record(id_)["memory_bandwidth_bytes_per_s"] == round(gb_per_s * 1e9)


def test_bandwidth_below_the_label_is_told_apart() -> None:
    # 7680 bit at 3996 MHz, two transfers a cycle: 7.67e12
    b200 = record("b200-sxm-180gb")
    assert b200["memory_bandwidth_bytes_per_s"] == 8_000_000_000_000
    assert b200["memory_bandwidth_expected_bytes_per_s"] == 7_672_000_000_000


def test_links_are_told_one_way() -> None:
    # NVLink 4 is sold as 900 GB/s both ways; xGMI as 896 in all, 64 one way between any two.
    assert record("h100-sxm-80gb")["interconnect"]["one_way_bytes_per_s"] == 450_000_000_000
    xgmi = record("mi300x-192gb")["interconnect"]
    assert xgmi["one_way_bytes_per_s"] == 448_000_000_000
    assert xgmi["pair_one_way_bytes_per_s"] == 64_000_000_000


def test_a_node_is_not_the_link_domain() -> None:
    gb200 = record("gb200-186gb")
    assert (gb200["gpus_per_node"], gb200["max_scaleup_gpus"]) == (4, 72)
