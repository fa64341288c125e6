"""Requests answered as bytes: each computed once, however many ask, and kept."""

from collections.abc import Awaitable, Callable

from app.answers.calculations import Asked, Calculation, canonical
from app.answers.kept import AnswerCache, Answered, Key, key_of
from app.hub.flight import Flights
from app.resolve.model import ModelResolver, ResolvedModel

TYPICAL_BYTES = 2500
"""Of an answer that is kept."""


class Calculator:
    """Answers calculations from memory, else by computing them."""

    def __init__(self, models: ModelResolver, answers: AnswerCache) -> None:
        self._models = models
        self._answers = answers
        self._flights = Flights()

    async def aclose(self) -> None:
        """End what is under way."""
        await self._flights.aclose()

    async def answer(
        self, calculation: Calculation, asked: Asked, words: Key | None = None
    ) -> Answered:
        """The answer to a request, which was asked in these words.

        Raises:
            KvmathError: as `Calculation.compute` and `ModelResolver.resolve`.
        """
        found = self.at_hand(calculation, asked, words)
        if found is not None:
            return found

        key = _key(calculation, asked)

        async def fetch_and_compute() -> Answered:
            return self._compute(calculation, asked, await self._models.resolve(asked), key)

        return await self._flights.join(key, fetch_and_compute)

    def at_hand(
        self, calculation: Calculation, asked: Asked, words: Key | None = None
    ) -> Answered | None:
        """The answer where nothing has to be waited for, else None.

        Raises:
            KvmathError: as `Calculation.compute`.
        """
        key = _key(calculation, asked)
        found = None if key is None else self._kept(key, words)
        if found is not None:
            return found
        return self.anew(calculation, asked, key)

    def anew(
        self, calculation: Calculation, asked: Asked, key: Key | None = None
    ) -> Answered | None:
        """The answer worked out, where no file has to be waited for; kept where it has a key.

        Raises:
            KvmathError: as `Calculation.compute`.
        """
        model = self._models.known(asked, vars(asked).get("config"))
        return None if model is None else self._compute(calculation, asked, model, key)

    def has_room_for(self, answers: int) -> bool:
        """Whether so many more answers would leave most of what is kept in its place."""
        return answers * TYPICAL_BYTES <= self._answers.max_bytes // 2

    async def once(
        self, key: Key, make: Callable[[], Awaitable[Answered]], words: Key | None
    ) -> Answered:
        """What is kept under a key, else what `make` makes, once for all who ask meanwhile."""
        found = self._kept(key, words)
        if found is not None:
            return found

        async def made() -> Answered:
            answer = await make()
            self._answers.put(key, answer)
            return answer

        return await self._flights.join(key, made)

    def _kept(self, key: Key, words: Key | None) -> Answered | None:
        """What is kept. Asked again, its very words are from now on answered before routing."""
        found = self._answers.get(key)
        if found is not None and words is not None:
            self._answers.put(words, found)
        return found

    def _compute(
        self, calculation: Calculation, asked: Asked, model: ResolvedModel, key: Key | None
    ) -> Answered:
        answer = Answered(
            calculation.compute(asked, model),
            varies=calculation.path == "/crossover",
            fresh_until=model.fresh_until,
            stale=model.stale,
        )
        if key is not None:
            self._answers.put(key, answer)
        return answer


def _key(calculation: Calculation, asked: Asked) -> Key | None:
    text = canonical(asked)
    return None if text is None else key_of("meaning", calculation.path, text)
