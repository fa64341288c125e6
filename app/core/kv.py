"""Formulas (1) to (3): bytes of a KV cache per token, per sequence, in total.

For a plain model these are the textbook's products; for the rest they are the same products taken
over each cache part. The result for one model and one deployment is a `KvProfile`: a handful of
integers from which any context's bytes follow.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from app.core.cache import CacheLayout, RecurrentState
from app.core.model import LayerGroup
from app.core.parallel import split_evenly


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """From `from_context` tokens on, a sequence takes `fixed_bytes + bytes_per_token x context`.

    `bytes_per_token` is whole for every cache but compressed ones, which store one entry per
    several tokens; there the line lies at most one entry above the stored bytes.
    """

    from_context: int
    fixed_bytes: int
    bytes_per_token: Fraction


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """All layers' parts that stop growing at `limit` and store one entry per `stride` tokens."""

    limit: int | None
    stride: int
    bytes_per_entry: int


@dataclass(frozen=True, kw_only=True)
class KvProfile:
    """What one sequence keeps, as terms in its length.

    `state_bytes` is the recurrent state and part of `fixed_bytes`.
    `context_shards` are the ranks over which a sequence's tokens are spread (decode context
    parallelism); growing terms hold `ceil(context / shards)` tokens on the fullest rank.
    """

    terms: tuple[Term, ...]
    fixed_bytes: int
    state_bytes: int
    context_shards: int = 1

    @cached_property
    def bytes_per_token(self) -> Fraction:
        """Formula (1): bytes the next token adds once every window is full."""
        growing = (
            Fraction(term.bytes_per_entry, term.stride) for term in self.terms if term.limit is None
        )
        return sum(growing, Fraction(0)) / self.context_shards

    def bytes_per_sequence(self, context: int) -> int:
        """Formula (2): bytes of one sequence of `context` tokens."""
        total = self.fixed_bytes
        for term in self.terms:
            if term.limit is None:
                held = -(-context // self.context_shards)
            else:
                held = min(context, term.limit)
            total += term.bytes_per_entry * (held // term.stride)
        return total

    def total_bytes(self, context: int, batch: int) -> int:
        """Formula (3): bytes of `batch` sequences of `context` tokens each."""
        return self.bytes_per_sequence(context) * batch

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The same as straight lines, one from each length at which some window is full."""
        limits = sorted({term.limit for term in self.terms if term.limit is not None})
        return tuple(self._segment(start) for start in (0, *limits))

    def context_reaching(self, total_bytes: int, batch: int) -> int | None:
        """The context (fraction dropped) at which a batch takes `total_bytes`, by segments.

        None where no length reaches it; 0 where the fixed bytes exceed it already.
        """
        segments = self.segments
        for index, segment in enumerate(segments):
            rest, slope = total_bytes - segment.fixed_bytes * batch, segment.bytes_per_token
            if not slope:
                if rest < 0:
                    return segment.from_context
                continue
            context = max(rest, 0) * slope.denominator // (slope.numerator * batch)
            if index + 1 == len(segments) or context < segments[index + 1].from_context:
                return context
        return None

    def _segment(self, start: int) -> Segment:
        fixed, slope = self.fixed_bytes, Fraction(0)
        for term in self.terms:
            if term.limit is None:
                slope += Fraction(term.bytes_per_entry, term.stride * self.context_shards)
            elif term.limit > start:
                slope += Fraction(term.bytes_per_entry, term.stride)
            else:
                fixed += term.bytes_per_entry * (term.limit // term.stride)
        return Segment(from_context=start, fixed_bytes=fixed, bytes_per_token=slope)


def merged(profiles: tuple[KvProfile, ...], *, times: int) -> KvProfile:
    """Several GPUs' profiles as one, each counted `times` times."""
    terms: dict[tuple[int | None, int], int] = {}
    for profile in profiles:
        for term in profile.terms:
            key = (term.limit, term.stride)
            terms[key] = terms.get(key, 0) + term.bytes_per_entry * times
    return KvProfile(
        terms=_terms(terms),
        fixed_bytes=sum(profile.fixed_bytes for profile in profiles) * times,
        state_bytes=sum(profile.state_bytes for profile in profiles) * times,
        context_shards=profiles[0].context_shards,
    )


def _terms(sizes: dict[tuple[int | None, int], int]) -> tuple[Term, ...]:
    return tuple(
        Term(limit=limit, stride=stride, bytes_per_entry=size)
        for (limit, stride), size in sizes.items()
    )


def profile_of(
    groups: tuple[LayerGroup, ...],
    layout: CacheLayout,
    *,
    layers: range | None = None,
    context_shards: int = 1,
) -> KvProfile:
    """The profile of some layer groups on one rank; `layers` restricts it to a pipeline stage.

    Raises `InputError` on `tensor_parallel_size` where the heads do not divide.
    """
    terms: dict[tuple[int | None, int], int] = {}
    fixed = state = 0
    for group in groups:
        if group.num_attention_heads:
            split_evenly(
                group.num_attention_heads, layout.tensor_parallel_size, "num_attention_heads"
            )
        count = _count(group, layers)
        for part in group.parts:
            once = part.fixed_bytes(layout) * count
            fixed += once
            if isinstance(part, RecurrentState):
                state += once
            per_entry = part.bytes_per_token(layout) * count
            if per_entry and part.limit != 0:
                key = (part.limit, part.stride)
                terms[key] = terms.get(key, 0) + per_entry
    return KvProfile(
        terms=_terms(terms),
        fixed_bytes=fixed,
        state_bytes=state,
        context_shards=context_shards,
    )


def _count(group: LayerGroup, layers: range | None) -> int:
    if layers is None:
        return group.count
    return sum(index in layers for index in group.layers)
