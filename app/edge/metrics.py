"""Numbers for Prometheus: requests, answers from memory, the hub, and what is running.

One registry an application. Where several workers serve (`PROMETHEUS_MULTIPROC_DIR` is set, which
`python -m app` sees to), each writes its numbers to files there, any of them answers for all, and
the last to end removes them.
"""

import asyncio
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from app.edge.journal import Entry
from app.edge.shared_folder import MULTIPROCESS, SharedFolder

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 3, 10, 30)
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"})


class Metrics:
    """The numbers of one application."""

    def __init__(self, kept_bytes: Callable[[], int], build: Mapping[str, str]) -> None:
        registry = self._registry = CollectorRegistry()
        self._count_kept_bytes = kept_bytes
        self._numbers: dict[tuple[str, str, int, bool], int] = {}
        self._buckets: dict[str, list[float]] = {}
        self._requests = Counter(
            "kvmath_requests", "Requests.", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "kvmath_request_duration_seconds",
            "From a request's arrival to its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._kept = Counter(
            "kvmath_answers_from_memory", "Answers given without computing.", registry=registry
        )
        self._kept_bytes = Gauge(
            "kvmath_answer_cache_bytes",
            "Bytes of answers in memory.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._hub = Counter(
            "kvmath_hub_events",
            "What the hub client did, and what came of it.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._hub_left = Gauge(
            "kvmath_hub_budget_left",
            "Requests that the hub still grants in its current window.",
            ["bucket"],
            registry=registry,
            multiprocess_mode="livemin",
        )
        self._tasks = Gauge(
            "kvmath_tasks",
            "Tasks of the event loop.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        Gauge(
            "kvmath_build_info",
            "Always 1; the labels say what is running.",
            list(build),
            registry=registry,
            multiprocess_mode="max",
        ).labels(*build.values()).set(1)
        folder = os.environ.get(MULTIPROCESS)
        self._shared = SharedFolder(folder) if folder is not None else None
        if self._shared is None:
            ProcessCollector(registry=registry)

    def note(self, entry: Entry) -> None:
        """Count a request."""
        method, _, route, status, took_s, _, _, _, hit, _ = entry
        seen = (method, route, status, hit)
        self._numbers[seen] = self._numbers.get(seen, 0) + 1
        buckets = self._buckets.get(route)
        if buckets is None:
            buckets = self._buckets[route] = [0.0] * (len(_SECONDS) + 2)
        buckets[bisect_left(_SECONDS, took_s)] += 1
        buckets[-1] += took_s

    def flush(self) -> None:
        """Hand what was counted to the metrics of the registry."""
        for (method, route, status, hit), number in self._numbers.items():
            known = method if method in _METHODS else "other"
            self._requests.labels(known, route, status).inc(number)
            if hit:
                self._kept.inc(number)
        for route, (*numbers, total) in self._buckets.items():
            histogram = self._seconds.labels(route)
            # To observe one by one, as its public method does, takes longer than an answer.
            histogram._sum.inc(total)  # noqa: SLF001
            for bucket, observed in zip(histogram._buckets, numbers, strict=True):  # noqa: SLF001
                bucket.inc(observed)
        self._numbers.clear()
        self._buckets.clear()
        self._kept_bytes.set(self._count_kept_bytes())

    def hub_event(self, kind: str, outcome: str) -> None:
        """The hub client's observer."""
        self._hub.labels(kind, outcome).inc()

    def hub_budget(self, left: Mapping[str, int]) -> None:
        """What the hub still grants, by bucket."""
        for bucket, number in left.items():
            self._hub_left.labels(bucket).set(number)

    def text(self) -> bytes:
        """Everything, as it is scraped."""
        self._tasks.set(len(asyncio.all_tasks()))
        registry = self._registry
        if self._shared is not None:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # not annotated there
        return generate_latest(registry)

    def close(self) -> None:
        """This process ends: what is only true of living ones is no longer told."""
        if self._shared is not None:
            mark_process_dead(os.getpid())  # type: ignore[no-untyped-call] # not annotated there
            self._shared.leave()
