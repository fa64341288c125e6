"""The files of one repository as the hub gives them: by the store where it has them, else asked."""

from dataclasses import dataclass
from typing import NamedTuple

from app.errors import HubAnswerTooLarge, HubBadAnswer, KvmathError
from app.hub.ask import Asker, Subject
from app.hub.classify import Outcome
from app.hub.config import HubConfig
from app.hub.facts import ModelInfo
from app.hub.info import EXPAND, read_info
from app.hub.names import info_url, is_commit, resolve_url
from app.hub.refusals import bad_answer
from app.hub.store import Blob, BlobKey, BlobStore
from app.hub.strict_json import JsonRefused, JsonTooLarge, parse_object
from app.hub.wire import Question, Reply, Trail


class Pin(NamedTuple):
    """A repository's current name, and the commit that all its files are read at."""

    repo_id: str
    commit: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    content: bytes | None
    pin: Pin


class HubFiles:
    """A `FileSource` over the hub.

    The first answer pins the commit. Questions asked beside it may have met another one, if the
    branch moved in between: they are asked again, so that all files are of one commit.
    """

    def __init__(
        self, asker: Asker, store: BlobStore, config: HubConfig, subject: Subject, pin: Pin | None
    ) -> None:
        self._asker = asker
        self._store = store
        self._config = config
        self._subject = subject
        self._fetched: dict[BlobKey, Blob] = {}
        self.pin = pin

    async def keep(self) -> None:
        """Store what was fetched: only its reader knows whether it was what it should be.

        A body that was spoiled on its way would else stand for the file for as long as the store
        lives, and in every replica.
        """
        for key, blob in self._fetched.items():
            await self._store.put(key, blob)
        self._fetched.clear()

    async def whole(self, name: str) -> bytes | None:
        """A JSON file's content; None where the commit has no such file.

        Raises:
            JsonTooLarge: it is larger than is read of a JSON file.
        """
        found = await self._fetch(name)
        if self.pin is None:
            self.pin = found.pin
        elif found.pin != self.pin:
            found = await self._fetch(name)
        return found.content

    async def span(self, name: str, first: int, last: int) -> bytes | None:
        """Bytes `first` to `last`, both included, or what there is of them."""
        limit = max(self._config.max_gguf_bytes, last + 1 - first)
        question = Question(url=self._url(name), limit=limit, span=(first, last))
        reply = await self._asker.ask(question, self._subject)
        if reply.verdict.outcome is Outcome.RANGE_REFUSED:
            return b""
        pin = self._pin_of(reply)
        if self.pin is None:
            self.pin = pin
        elif pin != self.pin:
            return await self.span(name, first, last)
        return None if reply.verdict.outcome is Outcome.FILE_MISSING else reply.body

    async def info(self) -> ModelInfo:
        """What the hub says about the repository.

        Raises:
            HubBadAnswer: it says something else than a hub would.
        """
        repo_id, revision = self.pin or (self._subject.repo_id, self._subject.revision)
        query = "&".join(f"expand={field}" for field in EXPAND)
        url = f"{info_url(self._config.endpoint, repo_id, revision)}?{query}"
        question = Question(url=url, limit=self._config.max_json_bytes)
        reply = await self._asker.ask(question, self._subject)
        if reply.verdict.outcome is not Outcome.OK:
            raise bad_answer(f"about the model was {reply.verdict.status}", reply.verdict.facts())
        try:
            return read_info(parse_object(reply.body))
        except JsonRefused as refused:
            raise bad_answer(f"about the model {refused}", reply.verdict.facts()) from None

    async def list_files(self) -> tuple[str, ...]:
        """The names of the repository's files, from model info."""
        return (await self.info()).files

    def refuse(self, why: str) -> KvmathError:
        """The error for content that cannot be used."""
        return HubBadAnswer(f"What the hub holds cannot be used: {why}.")

    async def _fetch(self, name: str) -> _Found:
        pin = self.pin
        if pin is None and is_commit(self._subject.revision):
            pin = Pin(self._subject.repo_id, self._subject.revision)
        if pin is not None and (blob := await self._store.get(BlobKey(*pin, name))) is not None:
            return _Found(content=blob.content, pin=pin)
        held: list[Blob] = []

        async def known(trail: Trail) -> bool:
            # The redirect names the commit: what is stored for it need not be sent again.
            place = Pin(trail.repo_id or self._subject.repo_id, trail.commit or "")
            blob = await self._store.get(BlobKey(*place, name))
            held.extend([blob] if blob is not None and blob.content is not None else [])
            return bool(held)

        limit = self._config.max_json_bytes
        question = Question(url=self._url(name), limit=limit, known=known)
        try:
            reply = await self._asker.ask(question, self._subject)
        except HubAnswerTooLarge:
            raise JsonTooLarge(f"is larger than {limit} bytes") from None
        place = self._pin_of(reply)
        if reply.at_hand and held:
            return _Found(content=held[-1].content, pin=place)
        missing = reply.verdict.outcome is Outcome.FILE_MISSING
        blob = Blob(None if missing else reply.body)
        self._fetched[BlobKey(*place, name)] = blob
        return _Found(content=blob.content, pin=place)

    def _url(self, name: str) -> str:
        repo_id, revision = self.pin or (self._subject.repo_id, self._subject.revision)
        return resolve_url(self._config.endpoint, repo_id, revision, name)

    def _pin_of(self, reply: Reply) -> Pin:
        asked = self.pin or Pin(self._subject.repo_id, self._subject.revision)
        commit = reply.trail.commit
        if commit is None:
            if reply.verdict.outcome is Outcome.OK or not is_commit(asked.commit):
                raise bad_answer("names no commit, so it is not a hub's", reply.verdict.facts())
            commit = asked.commit
        if is_commit(self._subject.revision) and commit != self._subject.revision:
            raise bad_answer("is about another commit than was asked for", reply.verdict.facts())
        return Pin(reply.trail.repo_id or asked.repo_id, commit)
