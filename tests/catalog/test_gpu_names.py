"""Names that people, drivers, Kubernetes labels and MIG use, and what they are taken to mean."""

import pytest

from app.catalog.gpus import GpuMatch, gpu_catalogue
from app.core.hardware import Gpu
from app.errors import UnknownGpu


def find(name: str) -> GpuMatch:
    return gpu_catalogue().find(name)


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("h100", "h100-sxm-80gb"),
        ("H100", "h100-sxm-80gb"),
        ("h100-80gb", "h100-sxm-80gb"),
        ("H100-SXM-80GB", "h100-sxm-80gb"),
        ("h100_sxm_80gb", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("a100", "a100-sxm-80gb"),
        ("a100-80gb", "a100-sxm-80gb"),
        ("A100-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA-A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA-A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA B200", "b200-sxm-180gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
        ("NVIDIA-GH200-480GB", "gh200-96gb"),
        ("Tesla-T4", "t4-16gb"),
        ("Tesla-V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA-L4", "l4-24gb"),
        ("l40s", "l40s-48gb"),
        ("NVIDIA A10G", "a10g-24gb"),
        ("4090", "rtx-4090-24gb"),
        ("rtx4090", "rtx-4090-24gb"),
        ("RTX 4090", "rtx-4090-24gb"),
        ("NVIDIA-GeForce-RTX-4090", "rtx-4090-24gb"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada-48gb"),
        ("NVIDIA GB10", "dgx-spark-gb10-128gb"),
        ("mi300x", "mi300x-192gb"),
        ("AMD_Instinct_MI300X_OAM", "mi300x-192gb"),
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx-24gb"),
        ("Intel(R) Arc(TM) Pro B60 Graphics", "arc-pro-b60-24gb"),
        ("Apple M4 Max", "apple-m4-max"),
        ("v5e", "tpu-v5e-16gb"),
    ],
)
def test_a_name_is_found(name: str, id_: str) -> None:
    assert find(name).gpu.id == id_


def test_every_id_and_alias_is_found_as_listed() -> None:
    for entry in gpu_catalogue().entries:
        for name in (entry.gpu.id, *entry.aliases, *entry.family_aliases):
            assert find(name).entry is entry


def test_a_name_that_several_products_share_is_an_assumption() -> None:
    assert find("h100").assumptions == (
        "h100 names several products; taken as H100 SXM5 80GB (h100-sxm-80gb)",
    )
    assert find("h100-sxm-80gb").assumptions == ()


def test_doubts_about_memory_and_bandwidth_are_assumptions() -> None:
    assert any("7.67" in said for said in find("NVIDIA B200").assumptions)
    assert any("projections" in said for said in find("mi455x").assumptions)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("rtx 4091", "rtx-4090-24gb"),
        ("h1000", "h100-sxm-80gb"),
        ("mi300", "mi300x-192gb"),
        ("a100-sxm4-81gb", "a100-sxm-80gb"),
        ("l40t", "l40-48gb"),
    ],
)
def test_an_unknown_name_gets_three_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownGpu) as refused:
        find(name)
    assert len(refused.value.nearest) == 3
    assert nearest in refused.value.nearest
    for near in refused.value.nearest:
        assert find(near)


@pytest.mark.parametrize("name", ["", " ", "nvidia", "💥", "x" * 10_000, "-" * 500])
def test_nonsense_is_unknown_and_gets_three_names_too(name: str) -> None:
    with pytest.raises(UnknownGpu) as refused:
        find(name)
    assert len(refused.value.nearest) == 3
    assert len(refused.value.name) <= 200


# MIG. Shares of the H100's 3350 GB/s and 989.5 TFLOP/s: an eighth and a seventh for 1g.10gb.
# Its driver lists 9.75 GiB for the profile: 10_468_982_784 bytes.
@pytest.mark.parametrize(
    "name",
    [
        "h100:1g.10gb",
        "h100-sxm-80gb:1g.10gb",
        "nvidia-h100-mig-1g.10gb",
        "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "h100/mig-1g.10gb",
        "H100 1G.10GB",
        "h100:1g.10gb+me",
    ],
)
def test_a_slice_by_any_spelling(name: str) -> None:
    gpu = find(name).gpu
    assert gpu.id == "h100-sxm-80gb:1g.10gb"
    assert gpu.memory_bytes == 10_000_000_000
    assert gpu.memory_bytes_reported == 10_468_982_784
    assert gpu.memory_bytes_cuda is None
    assert gpu.visible_memory_bytes == 10_468_982_784
    assert gpu.memory_bandwidth_bytes_per_s == 418_750_000_000
    assert gpu.dense_peak("bf16") == 141_357_142_857_142
    assert gpu.compute_capability == (9, 0)
    assert gpu.interconnect_bytes_per_s is None
    assert gpu.mig_profile == "1g.10gb"


def test_shares_of_a_slice_are_assumptions() -> None:
    (said,) = find("h100-sxm-80gb:3g.40gb").assumptions
    assert "bandwidth is 1/2 and compute 3/7" in said


def test_a_slice_whose_driver_total_is_unknown_says_so() -> None:
    match = find("gb200-186gb:1g.23gb")
    assert match.gpu.memory_bytes_reported is None
    assert match.gpu.visible_memory_bytes == 23_000_000_000
    assert any("decimal GB" in said for said in match.assumptions)


# GiB that drivers list for a profile: 4.75, 19.62 (printed; 20096 MiB), 9.5, 16.
@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("a100-sxm-40gb:1g.5gb", 4864),
        ("a100-sxm-40gb:3g.20gb", 20096),
        ("a100-sxm-80gb:1g.10gb", 9728),
        ("h200:1g.18gb", 16384),
    ],
)
def test_slices_hold_less_than_their_fraction(name: str, mib: int) -> None:
    match = find(name)
    assert match.gpu.memory_bytes_reported == mib * 2**20
    profile = next(p for p in match.entry.mig_profiles if p.profile == match.gpu.mig_profile)
    whole = match.entry.gpu.memory_bytes_reported
    assert whole is not None
    assert match.gpu.memory_bytes_reported < whole * profile.memory_fraction


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("h100:1g.11gb", "h100-sxm-80gb:1g.10gb"),
        ("nvidia.com/mig-1g.10gb", "a100-sxm-40gb:1g.10gb"),
        ("mig-1g.5gb", "a100-sxm-40gb:1g.5gb"),
        ("l40s:1g.10gb", "l40s-48gb"),
    ],
)
def test_a_slice_that_cannot_be_is_unknown(name: str, nearest: str) -> None:
    with pytest.raises(UnknownGpu) as refused:
        find(name)
    assert nearest in refused.value.nearest


def test_profiles_fit_on_their_gpu() -> None:
    for entry in gpu_catalogue().entries:
        for profile in entry.mig_profiles:
            assert profile.max_instances * profile.memory_fraction <= 1, entry.gpu.id
            assert profile.max_instances * profile.compute_fraction <= 1, entry.gpu.id


def test_a_gpu_is_frozen_and_can_be_a_key() -> None:
    gpu: Gpu = find("h100").gpu
    assert {gpu: 1}[find("h100-sxm-80gb").gpu] == 1
    with pytest.raises(AttributeError):
        gpu.memory_bytes = 1  # type: ignore[misc] # the point of the test
