"""The three memories of each card against figures read from driver and engine logs.

Expected values are those of the survey of 29 November 2026 (nvidia-smi, rocm-smi, torch totals),
typed in; none is computed from the catalogue.
"""

import pytest

from app.catalog.gpus import gpu_catalogue
from app.core.hardware import Gpu

MIB, GIB, GB = 2**20, 2**30, 10**9

# id, GB as sold, MiB as the driver reports, reported bytes in percent of GB, reported GiB in
# percent of GB. The column nearer to 100 tells which of the two the maker means by GB: no rule
# holds for all.
REPORTED = """
v100-sxm2-16gb              16   16160   105.9   98.6
v100-sxm2-32gb              32   32510   106.5   99.2
v100-pcie-16gb              16   16160   105.9   98.6
v100-pcie-32gb              32   32510   106.5   99.2
t4-16gb                     16   15360   100.7   93.8
a2-16gb                     16   15356   100.6   93.7
a10-24gb                    24   23028   100.6   93.7
a10g-24gb                   24   23028   100.6   93.7
a16-16gb                    16   15356   100.6   93.7
a30-24gb                    24   24576   107.4  100.0
a40-48gb                    48   46068   100.6   93.7
a100-pcie-40gb              40   40960   107.4  100.0
a100-sxm-40gb               40   40960   107.4  100.0
a100-pcie-80gb              80   81920   107.4  100.0
a100-sxm-80gb               80   81920   107.4  100.0
a800-sxm-80gb               80   81920   107.4  100.0
h100-pcie-80gb              80   81559   106.9   99.6
h100-sxm-80gb               80   81559   106.9   99.6
h100-nvl-94gb               94   95830   106.9   99.6
h800-sxm-80gb               80   81559   106.9   99.6
h20-96gb                    96   97871   106.9   99.6
h20-3e-141gb               141  143771   106.9   99.6
h200-sxm-141gb             141  143771   106.9   99.6
h200-nvl-141gb             141  143771   106.9   99.6
gh200-96gb                  96   97871   106.9   99.6
b200-sxm-180gb             180  183359   106.8   99.5
b300-sxm-288gb             288  275040   100.1   93.3
gb200-186gb                186  189471   106.8   99.5
gb300-288gb                288  284208   103.5   96.4
rtx-pro-6000-server-96gb    96   97887   106.9   99.6
rtx-pro-6000-ws-96gb        96   97887   106.9   99.6
rtx-pro-6000-maxq-96gb      96   97887   106.9   99.6
rtx-6000-ada-48gb           48   49140   107.3  100.0
rtx-5000-ada-32gb           32   32760   107.3  100.0
l4-24gb                     24   23034   100.6   93.7
l40-48gb                    48   46068   100.6   93.7
l40s-48gb                   48   46068   100.6   93.7
l20-48gb                    48   46068   100.6   93.7
rtx-a4000-16gb              16   16376   107.3  100.0
rtx-a5000-24gb              24   24564   107.3  100.0
rtx-a6000-48gb              48   49140   107.3  100.0
rtx-3060-12gb               12   12288   107.4  100.0
rtx-3080-10gb               10   10240   107.4  100.0
rtx-3090-24gb               24   24576   107.4  100.0
rtx-4060ti-16gb             16   16380   107.3  100.0
rtx-4070-12gb               12   12282   107.3  100.0
rtx-4080-16gb               16   16376   107.3  100.0
rtx-4090-24gb               24   24564   107.3  100.0
rtx-5070-12gb               12   12227   106.8   99.5
rtx-5070ti-16gb             16   16303   106.8   99.5
rtx-5080-16gb               16   16303   106.8   99.5
rtx-5090-32gb               32   32607   106.8   99.5
mi210-64gb                  64   65520   107.3  100.0
mi250x-64gb                 64   65520   107.3  100.0
mi300x-192gb               192  196592   107.4  100.0
mi350x-288gb               288  294896   107.4  100.0
mi355x-288gb               288  294896   107.4  100.0
rx-7900-xtx-24gb            24   24560   107.3   99.9
radeon-ai-pro-r9700-32gb    32   32624   106.9   99.6
rx-9070-xt-16gb             16   16304   106.8   99.5
gaudi2-96gb                 96   98304   107.4  100.0
gaudi3-128gb               128  131072   107.4  100.0
arc-pro-b60-24gb            24   24480   107.0   99.6
"""

# id, device total in GiB as torch prints it, its share of the driver's total in percent.
VISIBLE = """
v100-sxm2-32gb              31.73   99.9
t4-16gb                     14.56   97.1
a100-pcie-40gb              39.39   98.5
a100-sxm-80gb               79.25   99.1
h100-sxm-80gb               79.18   99.4
h100-nvl-94gb               93.09   99.5
h200-sxm-141gb              139.8   99.6
h200-nvl-141gb              139.8   99.6
b200-sxm-180gb             178.35   99.6
rtx-pro-6000-server-96gb    94.97   99.3
rtx-pro-6000-ws-96gb        94.97   99.3
l40s-48gb                    44.4   98.7
l20-48gb                    44.39   98.7
rtx-3090-24gb               23.56   98.2
rtx-4090-24gb               23.64   98.5
rtx-5080-16gb               15.47   97.2
rtx-5090-32gb               31.37   98.5
mi300x-192gb               191.98  100.0
mi350x-288gb               287.98  100.0
mi355x-288gb               287.98  100.0
radeon-ai-pro-r9700-32gb    31.86  100.0
rx-9070-xt-16gb             15.92  100.0
arc-pro-b60-24gb            23.91  100.0
"""


def gpu_of(name: str) -> Gpu:
    return gpu_catalogue().find(name).gpu


@pytest.mark.parametrize("row", REPORTED.strip().split("\n"), ids=lambda row: row.split()[0])
def test_memory_as_sold_and_as_reported(row: str) -> None:
    name, sold, mib, decimal_percent, binary_percent = row.split()
    gpu = gpu_of(name)
    assert gpu.id == name
    assert gpu.memory_bytes == int(sold) * GB
    assert gpu.memory_bytes_reported == int(mib) * MIB
    assert 100 * gpu.memory_bytes_reported / gpu.memory_bytes == pytest.approx(
        float(decimal_percent), abs=0.051
    )
    assert 100 * gpu.memory_bytes_reported / GIB / int(sold) == pytest.approx(
        float(binary_percent), abs=0.051
    )


@pytest.mark.parametrize("row", VISIBLE.strip().split("\n"), ids=lambda row: row.split()[0])
def test_memory_that_a_process_sees(row: str) -> None:
    name, gib, percent = row.split()
    gpu = gpu_of(name)
    assert gpu.memory_bytes_cuda is not None
    assert gpu.memory_bytes_reported is not None
    # Totals differ by some MiB between drivers; the survey prints two decimals of a GiB.
    assert gpu.memory_bytes_cuda / GIB == pytest.approx(float(gib), abs=0.011)
    share = 100 * gpu.memory_bytes_cuda / gpu.memory_bytes_reported
    assert share == pytest.approx(float(percent), abs=0.06)


def test_a_process_never_sees_more_than_the_driver_reports() -> None:
    pairs = [
        (gpu.id, gpu.memory_bytes_cuda, gpu.memory_bytes_reported)
        for gpu in (entry.gpu for entry in gpu_catalogue().entries)
        if gpu.memory_bytes_cuda is not None and gpu.memory_bytes_reported is not None
    ]
    assert len(pairs) > 30
    assert [pair for pair in pairs if pair[1] > pair[2]] == []


def test_a_cuda_total_is_not_passed_off_as_the_drivers() -> None:
    # The only figure seen for this card, 145920 MiB, was printed by CUDA.
    gpu = gpu_of("gh200-144gb")
    assert gpu.memory_bytes_reported is None
    assert gpu.memory_bytes_cuda == 145920 * MIB


@pytest.mark.parametrize(
    ("name", "mib"),
    [("gb10", 124609), ("jetson-agx-orin", 62827), ("orin-nano", 7607), ("jetson-thor", 125748)],
)
def test_unified_memory_has_a_cuda_total_and_no_driver_total(name: str, mib: int) -> None:
    gpu = gpu_of(name)
    assert gpu.unified_memory
    assert gpu.memory_bytes_reported is None
    assert gpu.memory_bytes_cuda == mib * MIB


def test_the_memory_in_a_grace_hopper_name_is_the_hosts() -> None:
    # "GH200 480GB" has 96 GB of HBM, 97871 MiB, beside 480 GB of LPDDR.
    assert gpu_of("NVIDIA GH200 480GB").memory_bytes == 96 * GB


def test_what_engines_take_is_the_last_memory_that_is_known() -> None:
    h100, a10, mi325x = gpu_of("h100"), gpu_of("a10"), gpu_of("mi325x")
    assert h100.visible_memory_basis == "memory_bytes_cuda"
    assert h100.visible_memory_bytes == 81089 * MIB
    assert a10.visible_memory_basis == "memory_bytes_reported"
    assert a10.visible_memory_bytes == 23028 * MIB
    assert mi325x.visible_memory_basis == "memory_bytes"
    assert mi325x.visible_memory_bytes == 256 * GB


@pytest.mark.parametrize(
    ("on", "off"), [("a40", "rtx-a6000"), ("l40s", "rtx-6000-ada"), ("a10", "rtx-a5000")]
)
def test_ecc_in_gddr6_takes_a_sixteenth(on: str, off: str) -> None:
    # 49140 -> 46068 and 24564 -> 23028 MiB: 15/16, to within a few MiB.
    with_ecc, without = gpu_of(on).memory_bytes_reported, gpu_of(off).memory_bytes_reported
    assert with_ecc is not None
    assert without is not None
    assert with_ecc / without == pytest.approx(15 / 16, abs=1e-4)
