"""The accelerators of ``gpu_catalog.json``: loaded once, found by id, alias or driver name."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.core.hardware import Gpu, MigProfile
from app.errors import UnknownGpu

CATALOGUE_FILE = Path(__file__).resolve().parents[2] / "gpu_catalog.json"
"""Beside the package: the same place in a checkout and in the image."""

MAX_NAME = 200
_NEAREST = 3
_MAKERS = frozenset(
    {
        "amd",
        "apple",
        "aws",
        "geforce",
        "google",
        "huawei",
        "instinct",
        "intel",
        "nvidia",
        "radeon",
        "tesla",
    }
)
_DOUBTS = frozenset({"announced", "assumed", "configuration", "disputed", "not_verified"})
_WEIGHTY = frozenset(
    {"memory_bytes", "memory_bytes_reported", "memory_bytes_cuda", "memory_bandwidth_bytes_per_s"}
)
_MARKS = re.compile(r"\((?:r|tm|c)\)", re.IGNORECASE)
_WORD = re.compile(r"[a-z0-9]+")
# A slice by any of its spellings: "h100:1g.10gb", "h100-mig-1g.10gb", the Kubernetes label
# "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", the device name "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
_SLICE = re.compile(
    r"(?P<whole>.*?)[\s:/_-]*(?:\bmig[\s:_-]+)?\b(?P<profile>\d{1,2}g\.\d{1,4}gb)(?:\+me)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuEntry:
    """One accelerator of the catalogue.

    Attributes:
        gpu: What formulas and engines need.
        aliases: Names that mean this product and no other.
        family_aliases: Names that several products share and that are taken to mean this one.
        mig_profiles: Slices that it can be cut into.
        facts: The whole record as the file has it, sources included.
    """

    gpu: Gpu
    aliases: tuple[str, ...]
    family_aliases: tuple[str, ...]
    mig_profiles: tuple[MigProfile, ...]
    facts: Mapping[str, Any]

    def slice(self, profile: MigProfile) -> Gpu:
        """The GPU that one MIG instance of a profile is: its share of memory, bandwidth, compute."""
        whole = self.gpu
        bandwidth = whole.memory_bandwidth_bytes_per_s
        return Gpu(
            id=f"{whole.id}:{profile.profile}",
            name=f"{whole.name} MIG {profile.profile}",
            driver_name=f"{whole.driver_name} MIG {profile.profile}" if whole.driver_name else None,
            vendor=whole.vendor,
            architecture=whole.architecture,
            memory_bytes=profile.memory_bytes,
            memory_bytes_reported=profile.memory_bytes_listed,
            memory_bandwidth_bytes_per_s=(
                None if bandwidth is None else int(bandwidth * profile.memory_fraction)
            ),
            memory_type=whole.memory_type,
            unified_memory=whole.unified_memory,
            compute_capability=whole.compute_capability,
            dense_peaks=tuple(
                (name, int(peak * profile.compute_fraction)) for name, peak in whole.dense_peaks
            ),
            dtypes=whole.dtypes,
            max_scaleup_gpus=1,
            mig_profile=profile.profile,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuMatch:
    """What a name was found to mean.

    Attributes:
        gpu: The device, a slice where the name named one.
        entry: The catalogue entry that it is, or is a slice of.
        assumptions: What the match takes for granted, in words.
    """

    gpu: Gpu
    entry: GpuEntry
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuCatalogue:
    """All accelerators, in the order of the file.

    Attributes:
        version: Date of the file, `2026.11.29`.
        digest: SHA-256 of the file's bytes, in hex.
        entries: The accelerators.
    """

    version: str
    digest: str
    entries: tuple[GpuEntry, ...]
    _by_name: Mapping[str, tuple[GpuEntry, bool]] = field(repr=False)

    def find(self, name: str) -> GpuMatch:
        """What an id, an alias, a driver name, a Kubernetes label or a MIG slice means.

        Case, spaces, dashes, underscores and the maker's name make no difference.

        Raises:
            UnknownGpu: with the three nearest ids.
        """
        if (found := self._whole(name)) is not None:
            return found
        if (parts := _SLICE.fullmatch(name[:MAX_NAME].strip())) is None:
            raise UnknownGpu(name[:MAX_NAME], self.nearest(name))
        wanted = parts["profile"].lower()
        if (whole := self._whole(parts["whole"])) is None:
            sliced = (
                f"{e.gpu.id}:{wanted}"
                for e in self.entries
                if any(p.profile == wanted for p in e.mig_profiles)
            )
            near = tuple(sliced)[:_NEAREST] or self.nearest(parts["whole"])
            raise UnknownGpu(name[:MAX_NAME], near)
        profiles = whole.entry.mig_profiles
        profile = next((p for p in profiles if p.profile == wanted), None)
        if profile is None:
            near = tuple(f"{whole.gpu.id}:{p.profile}" for p in profiles[:_NEAREST])
            raise UnknownGpu(name[:MAX_NAME], near or (whole.gpu.id,))
        return GpuMatch(
            gpu=whole.entry.slice(profile),
            entry=whole.entry,
            assumptions=(*whole.assumptions, *_slice_assumptions(whole.gpu, profile)),
        )

    def _whole(self, name: str) -> GpuMatch | None:
        found = self._by_name.get(normalise(name)) if len(name) <= MAX_NAME else None
        if found is None:
            return None
        entry, family = found
        taken = f"{name} names several products; taken as {entry.gpu.name} ({entry.gpu.id})"
        return GpuMatch(
            gpu=entry.gpu,
            entry=entry,
            assumptions=(*((taken,) if family else ()), *_doubts(entry)),
        )

    def nearest(self, name: str) -> tuple[str, ...]:
        """The three ids that look most like a name, by the pairs of letters they share."""
        wanted = _pairs(normalise(name[:MAX_NAME]))

        def likeness(known: str) -> float:
            have = _pairs(known)
            return 2 * len(wanted & have) / (len(wanted) + len(have) or 1)

        ids: dict[str, None] = {}
        for known in sorted(self._by_name, key=lambda known: (-likeness(known), known)):
            ids.setdefault(self._by_name[known][0].gpu.id)
            if len(ids) == _NEAREST:
                break
        return tuple(ids)


@cache
def gpu_catalogue() -> GpuCatalogue:
    """The catalogue that ships with the product, read on first use."""
    return read_catalogue(CATALOGUE_FILE.read_bytes())


def read_catalogue(document: bytes) -> GpuCatalogue:
    """A catalogue from the bytes of its file.

    Raises:
        ValueError: for a name that means two entries, or a record that is not of the schema.
    """
    facts = json.loads(document)
    try:
        entries = tuple(_entry(record) for record in facts["gpus"])
        version = str(facts["version"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"gpu catalogue: a record lacks or misshapes {error}") from error
    return GpuCatalogue(
        version=version,
        digest=hashlib.sha256(document).hexdigest(),
        entries=entries,
        _by_name=MappingProxyType(_names(entries)),
    )


def normalise(name: str) -> str:
    """A name as it is compared: lower case, letters and digits only, without the maker's name."""
    words = _WORD.findall(_MARKS.sub(" ", name).lower())
    while words and words[0] in _MAKERS:
        words.pop(0)
    return "".join(words)


def _names(entries: Iterable[GpuEntry]) -> dict[str, tuple[GpuEntry, bool]]:
    names: dict[str, tuple[GpuEntry, bool]] = {}
    for entry in entries:
        exact = (entry.gpu.id, *entry.aliases)
        for name, family in (
            *((name, False) for name in exact),
            *((name, True) for name in entry.family_aliases),
        ):
            taken, _ = names.setdefault(normalise(name), (entry, family))
            if taken is not entry:
                raise ValueError(f"gpu catalogue: {name!r} means {taken.gpu.id} and {entry.gpu.id}")
    return names


def _entry(record: Mapping[str, Any]) -> GpuEntry:
    capability = record["compute_capability"]
    link = record["interconnect"] or {}
    own = {
        "compute_capability": None if capability is None else parse_capability(capability),
        "dense_peaks": tuple(record["dense_peak_flop_per_s"].items()),
        "dtypes": frozenset(record["dtypes"]),
        "interconnect_bytes_per_s": link.get("one_way_bytes_per_s"),
        "interconnect_pair_bytes_per_s": link.get("pair_one_way_bytes_per_s"),
    }
    same = {field.name: record[field.name] for field in fields(Gpu) if field.name in record}
    gpu = Gpu(**(same | own))
    return GpuEntry(
        gpu=gpu,
        aliases=tuple(record["aliases"]),
        family_aliases=tuple(record["family_aliases"]),
        mig_profiles=tuple(_profile(row) for row in record.get("mig_profiles", ())),
        facts=MappingProxyType(record),
    )


def parse_capability(text: str) -> tuple[int, int]:
    """`9.0` as (9, 0)."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _profile(row: Mapping[str, Any]) -> MigProfile:
    return MigProfile(
        profile=row["profile"],
        memory_fraction=Fraction(row["memory_fraction"]),
        compute_fraction=Fraction(row["compute_fraction"]),
        max_instances=row["max_instances"],
        memory_bytes_listed=row["memory_bytes_listed"],
    )


def _doubts(entry: GpuEntry) -> Iterable[str]:
    """The flags that whoever computes with memory or bandwidth should read."""
    for flag in entry.facts["flags"]:
        if flag["flag"] in _DOUBTS and not _WEIGHTY.isdisjoint(flag["figures"]):
            yield f"{entry.gpu.name}: {flag['note'].removesuffix('.')}"


def _slice_assumptions(whole: Gpu, profile: MigProfile) -> Iterable[str]:
    yield (
        f"{profile.profile} of {whole.name}: bandwidth is {profile.memory_fraction} and compute "
        f"{profile.compute_fraction} of the whole GPU's, the vendor's documented shares"
    )
    if profile.memory_bytes_listed is None:
        yield (
            f"what the driver gives a {profile.profile} slice of {whole.name} is not known; "
            "its memory is what the profile's name says, in decimal GB"
        )


def _pairs(key: str) -> frozenset[str]:
    return frozenset(key[i : i + 2] for i in range(len(key) - 1)) or frozenset({key})
