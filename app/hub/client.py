"""The hub for the rest of the product: facts about a model, fetched once and remembered."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import httpx
from cachetools import LRUCache, TTLCache

from app.errors import (
    AccessDenied,
    DisabledModel,
    GatedModel,
    HubError,
    HubOffline,
    HubTimeout,
    KvmathError,
    NotFound,
)
from app.hub.ask import Asker, Deadline, Observer, Subject
from app.hub.budget import Budget
from app.hub.config import HubConfig
from app.hub.facts import ModelFiles, WeightFacts
from app.hub.flight import Flights
from app.hub.folder import CachedModels, read_local_weights
from app.hub.names import check_filename, check_repo_id, check_revision
from app.hub.read_config import Configuration
from app.hub.read_gguf import GgufLimits
from app.hub.read_model import read_model
from app.hub.read_weights import read_weights
from app.hub.refusals import again
from app.hub.remote import HubFiles, Pin
from app.hub.store import BlobStore, MemoryBlobStore, Ref, Refs
from app.hub.wire import Wire

T = TypeVar("T")

_MAX_REFUSED = 16_384
_ENTRY_BYTES = 1_024
_TENSOR_BYTES = 512
_MAX_GATED_EXTRA_S = 1.0


def _ignore(*_event: str) -> None:
    """The observer of those who observe nothing."""


class _Key(NamedTuple):
    """What is fetched: `kind` of fact, of a repository at a revision, for one of its files."""

    kind: str
    repo_id: str
    revision: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class _Entry:
    value: Any
    size: int


class HubClient:
    """Facts about models of one hub, for all callers of a process. Use as a context manager.

    Args:
        config: Limits, endpoint, token.
        store: Where fetched files are kept; by default in this process.
        observer: Told of every request and cache event, for metrics.
        transport: Replaces the network.
        clock: Seconds that only grow, for what expires.
        sleep: Waits between tries.
        jitter: A number from 0 to 1 that spreads them.
    """

    def __init__(
        self,
        config: HubConfig,
        *,
        store: BlobStore | None = None,
        observer: Observer = _ignore,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._config = config
        self._observer = observer
        self._store = store or MemoryBlobStore(config.blob_cache_bytes)
        self._budget = Budget(clock)
        self._wire = Wire(config, self._budget, transport)
        self._asker = Asker(self._wire, config, observer=observer, sleep=sleep, jitter=jitter)
        self._limits = GgufLimits(
            max_bytes=config.max_gguf_bytes, slots=asyncio.Semaphore(config.headers_at_once)
        )
        self._cached = CachedModels(config.cache_dir, self._limits) if config.cache_dir else None
        self._flights = Flights()
        self._refs = Refs(config.refs_ttl_s, clock)
        self._facts: LRUCache[_Key, _Entry] = LRUCache(
            config.facts_cache_bytes, getsizeof=lambda entry: entry.size
        )
        self._refused: TTLCache[_Key, KvmathError] = TTLCache(
            _MAX_REFUSED, ttl=config.refused_ttl_s, timer=clock
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End what is under way and close every connection."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._wire.aclose)
            stack.push_async_callback(self._flights.aclose)

    def budget_left(self) -> dict[str, int]:
        """Requests that the hub still grants, by its bucket names."""
        return self._budget.left()

    async def fetch_model(
        self,
        repo_id: str,
        revision: str = "main",
        *,
        gguf_file: str | None = None,
        use_local_cache: bool = True,
    ) -> ModelFiles:
        """A model's configuration at a revision: from the machine's cache, else from the hub.

        Args:
            repo_id: `name` or `org/name`.
            revision: Branch, tag or commit.
            gguf_file: A GGUF file of the repository to read instead of its config.json.
            use_local_cache: False to ask the hub even where the machine has the files.

        Raises:
            InputError: a name that no hub could hold.
            NotFound, AccessDenied: what the hub says about the model.
            HubError: the hub could not be asked, and nothing older is known.
        """
        check_repo_id(repo_id)
        check_revision(revision)
        if gguf_file is not None:
            check_filename(gguf_file)
        if use_local_cache and self._cached is not None:
            cached = await self._cached.find(repo_id, revision, gguf_file=gguf_file)
            self._observer("local_cache", "miss" if cached is None else "hit")
            if cached is not None:
                return cached

        async def build(files: HubFiles) -> Configuration:
            try:
                return await read_model(files, repo_id, gguf_file=gguf_file, limits=self._limits)
            except GatedModel as error:
                raise await _explained(error, files) from None

        seconds = self._config.timeout_s if gguf_file is None else self._config.header_timeout_s
        key = _Key("model", repo_id, revision, gguf_file or "")
        read, ref = await self._fact(key, build, seconds)
        return read.found(
            requested_id=repo_id,
            resolved_id=ref.repo_id,
            revision=revision,
            commit=ref.commit,
            source="hub",
            stale=ref.stale,
            fresh_until=None if ref.commit == revision else ref.fresh_until,
            notes=_notes(repo_id, ref),
        )

    async def fetch_weights(self, files: ModelFiles) -> WeightFacts:
        """What the checkpoint of `files` stores, by the cheapest statement that settles it.

        Raises:
            HubError: as `fetch_model`; HubBadAnswer also names a dtype of unknown size.
        """
        if files.gguf is not None:
            return WeightFacts(
                total_bytes=files.gguf.tensor_bytes,
                source="gguf",
                bytes_by_dtype=files.gguf.bytes_by_dtype,
            )
        local = await read_local_weights(files, self._limits.slots)
        if local is not None and local.total_bytes is not None:
            return local
        if files.commit is None or (files.folder is not None and self._config.offline):
            return local or WeightFacts(total_bytes=None, source="unknown")

        async def build(source: HubFiles) -> WeightFacts:
            return await read_weights(
                source, is_params_json=files.is_params_json, slots=self._limits.slots
            )

        key = _Key("weights", files.resolved_id, files.commit, str(files.is_params_json))
        weights, _ = await self._fact(key, build, self._config.header_timeout_s)
        return weights

    async def _fact(
        self, key: _Key, build: Callable[[HubFiles], Awaitable[T]], seconds: float
    ) -> tuple[T, Ref]:
        if self._config.offline:
            raise HubOffline(
                f"Model {key.repo_id!r} is not on this machine, and the hub is switched off "
                "(HF_HUB_OFFLINE)."
            )
        refused = self._refused.get(key)
        if refused is not None:
            self._observer("cache", "refused")
            raise again(refused)
        ref = self._refs.fresh(key.repo_id, key.revision)
        held = self._held(key, ref)
        if ref is not None and held is not None:
            self._observer("cache", "stale" if ref.stale else "hit")
            return held.value, ref
        self._observer("cache", "miss")
        return await self._flights.join(key, lambda: self._fetch(key, ref, build, seconds))

    async def _fetch(
        self,
        key: _Key,
        ref: Ref | None,
        build: Callable[[HubFiles], Awaitable[T]],
        seconds: float,
    ) -> tuple[T, Ref]:
        try:
            return await self._try_to_fetch(key, ref, build, seconds)
        except KvmathError as error:
            # The frames it passed through hold whole bodies, some of them in circles with it.
            error.__traceback__ = error.__context__ = None
            raise

    async def _try_to_fetch(
        self,
        key: _Key,
        ref: Ref | None,
        build: Callable[[HubFiles], Awaitable[T]],
        seconds: float,
    ) -> tuple[T, Ref]:
        deadline = Deadline(seconds)
        subject = Subject(repo_id=key.repo_id, revision=key.revision, deadline=deadline)
        pin = Pin(ref.repo_id, ref.commit) if ref is not None else None
        files = HubFiles(self._asker, self._store, self._config, subject, pin)
        try:
            async with asyncio.timeout_at(deadline.at):
                value = await build(files)
            await files.keep()
        except (NotFound, AccessDenied) as error:
            self._refused[key] = again(error)
            self._refs.forget(key.repo_id, key.revision)
            raise
        except HubError as error:
            return self._old(key, ref, files, error)
        except TimeoutError:
            why = f"The hub gave no whole answer within {seconds:g} s."
            return self._old(key, ref, files, HubTimeout(why))
        except KvmathError:
            self._learn(key, ref, files)
            raise
        ref = self._learn(key, ref, files)
        if ref is None:
            raise AssertionError("every answer that is accepted names its commit")
        self._hold(key, ref, value)
        return value, ref

    def _old(self, key: _Key, ref: Ref | None, files: HubFiles, error: HubError) -> tuple[Any, Ref]:
        last = self._refs.last_known(key.repo_id, key.revision)
        held = self._held(key, last)
        if last is None or held is None:
            self._learn(key, ref, files)
            raise error
        self._observer("cache", "stale")
        ref = self._refs.believe(key.repo_id, key.revision, last, self._config.stale_retry_s)
        return held.value, ref

    def _learn(self, key: _Key, ref: Ref | None, files: HubFiles) -> Ref | None:
        # A ref that was fresh has not been asked again: it keeps the age it has.
        if ref is not None or files.pin is None:
            return ref
        return self._refs.learn(
            key.repo_id, key.revision, current_id=files.pin.repo_id, commit=files.pin.commit
        )

    def _held(self, key: _Key, ref: Ref | None) -> _Entry | None:
        if ref is None:
            return None
        return self._facts.get(_Key(key.kind, ref.repo_id, ref.commit, key.file))

    def _hold(self, key: _Key, ref: Ref, value: Any) -> None:
        entry = _Entry(value, _size_of(value))
        if entry.size <= self._facts.maxsize:
            self._facts[_Key(key.kind, ref.repo_id, ref.commit, key.file)] = entry


async def _explained(error: GatedModel, files: HubFiles) -> KvmathError:
    """The error with what model info shows of a gated model: its totals, without its config."""
    try:
        async with asyncio.timeout(_MAX_GATED_EXTRA_S):
            info = await files.info()
    except (KvmathError, TimeoutError):
        return error
    if info.disabled:
        return DisabledModel(error.model)
    error.extra |= {
        "architectures": list(info.architectures),
        "parameters_by_dtype": dict(info.parameters_by_dtype or {}),
    }
    return error


def _notes(requested_id: str, ref: Ref) -> tuple[str, ...]:
    notes = []
    if ref.repo_id != requested_id:
        notes.append(f"the hub knows {requested_id} as {ref.repo_id}")
    if ref.stale:
        notes.append("the hub could not be asked whether this is still the newest commit")
    return tuple(notes)


def _size_of(value: Any) -> int:
    # Python objects take a few times their text; the bound needs the order, not the byte.
    if not isinstance(value, Configuration):
        return _ENTRY_BYTES + 4 * len(repr(value))
    tensors = len(value.gguf.header.tensors) if value.gguf is not None else 0
    texts = len(repr(value.config)) + len(repr(value.quantization))
    return _ENTRY_BYTES + 4 * texts + _TENSOR_BYTES * tensors
