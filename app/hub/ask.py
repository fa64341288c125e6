"""A question asked until it is answered: retries with jitter, waits for rate limits, one deadline."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from app.errors import HubAnswerTooLarge, HubRateLimited, HubTimeout, HubUnavailable, KvmathError
from app.hub.body import BodyTooLarge, WrongAnswer
from app.hub.budget import retry_after_s
from app.hub.classify import Outcome
from app.hub.config import HubConfig
from app.hub.refusals import bad_answer, error_for
from app.hub.wire import MustWait, NoAnswer, Question, Reply, Wire

Observer = Callable[[str, str], None]
"""Told of every event as (kind, outcome): ("request", "ok"), ("cache", "hit"), ..."""

MAX_BACKOFF_S = 8.0
_ANSWERS = frozenset({Outcome.OK, Outcome.FILE_MISSING, Outcome.RANGE_REFUSED})
_WORTH_RETRYING = frozenset({Outcome.RATE_LIMITED, Outcome.TRANSIENT})


class Deadline:
    """A moment of the running loop's clock by which an operation has to be over."""

    __slots__ = ("at",)

    def __init__(self, seconds: float) -> None:
        self.at = asyncio.get_running_loop().time() + seconds

    def left_s(self) -> float:
        """Seconds until then; negative afterwards."""
        return self.at - asyncio.get_running_loop().time()


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The model a question is about, and the time there is to answer it."""

    repo_id: str
    revision: str
    deadline: Deadline


class Asker:
    """Asks one hub on behalf of everybody in the process."""

    def __init__(
        self,
        wire: Wire,
        config: HubConfig,
        *,
        observer: Observer,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._wire = wire
        self._config = config
        self._observer = observer
        self._sleep = sleep
        self._jitter = jitter
        self._slots = asyncio.Semaphore(config.connections)

    async def ask(self, question: Question, subject: Subject) -> Reply:
        """The reply: OK, or that the file or the range does not exist.

        Raises:
            KvmathError: what every other outcome means; after the last try for those that a
                further try might have mended.
        """
        tries = 0
        while True:
            try:
                reply = await self._ask_once(question)
                self._observer("request", reply.verdict.outcome.value)
                if reply.verdict.outcome in _ANSWERS:
                    return reply
                after = retry_after_s(reply.headers)
                failure = error_for(
                    reply.verdict,
                    subject.repo_id,
                    subject.revision,
                    has_token=self._config.token is not None,
                    retry_after=after,
                )
                if reply.verdict.outcome not in _WORTH_RETRYING:
                    raise failure
            except NoAnswer as error:
                self._observer("request", "timeout" if error.timed_out else "no_answer")
                after, failure = None, _no_answer(error)
            except WrongAnswer as error:
                self._observer("request", "wrong_answer")
                if isinstance(error, BodyTooLarge):
                    raise HubAnswerTooLarge(f"The hub's answer {error}.") from None
                raise bad_answer(str(error)) from None
            except MustWait as wait:
                # Waiting costs nobody a request, so it is no try; only the deadline ends it.
                self._observer("request", "held_back")
                await self._pause(wait.wait_s, _rate_limited(wait.wait_s), subject.deadline)
                continue
            if tries >= self._config.retries:
                raise failure
            await self._pause(after or self._backoff(tries), failure, subject.deadline)
            tries += 1

    async def _ask_once(self, question: Question) -> Reply:
        async with self._slots:
            return await self._wire.ask(question)

    def _backoff(self, tries: int) -> float:
        full = min(MAX_BACKOFF_S, math.ldexp(self._config.backoff_s, tries))
        return full * (0.5 + 0.5 * self._jitter())

    async def _pause(self, seconds: float, failure: KvmathError, deadline: Deadline) -> None:
        if seconds >= deadline.left_s():
            # Nothing can be won by sleeping into the deadline: say now what went wrong.
            raise failure
        await self._sleep(seconds)


def _no_answer(error: NoAnswer) -> KvmathError:
    if error.timed_out:
        return HubTimeout("The hub did not answer in time.")
    return HubUnavailable(f"The hub {error}.")


def _rate_limited(wait_s: float) -> KvmathError:
    return HubRateLimited(
        "The hub's rate limit leaves no request for now.", retry_after=round(wait_s, 3)
    )
