"""The soak's questions, each with what a right answer to it is."""

import asyncio
import json
import random
from collections import Counter
from typing import Any

from tests.fake_hub import FakeHub
from tests.running.client import Connection, Reply
from tests.running.configs import bytes_per_token, config_of

HUB_TROUBLE = frozenset({502, 503, 504})
BATCH_ITEMS = 100


class WrongAnswer(AssertionError):
    """The service said something that is not so."""


class Caller:
    """One connection that asks at random and checks every answer."""

    def __init__(self, port: int, hub: FakeHub, seen: Counter[str], seed: int) -> None:
        self.connection = Connection(port)
        self.hub = hub
        self.seen = seen
        self.random = random.Random(seed)
        self.tags: dict[str, tuple[str, bytes]] = {}
        self.number = seed * 1_000_000
        self.kinds = (
            [self.repeated] * 8
            + [self.fresh] * 6
            + [self.hub_model] * 6
            + [self.wrong, self.missing, self.unchanged, self.batch, self.head, self.rude]
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until told to stop."""
        while not stop.is_set():
            await self.random.choice(self.kinds)()
        self.connection.close()

    def _expect(self, kind: str, reply: Reply, *statuses: int) -> None:
        self.seen[f"{kind} {reply.status}"] += 1
        if reply.status not in statuses:
            raise WrongAnswer(f"{kind}: {reply.status} {reply.body[:300]!r}")
        if reply.status >= 400:
            assert reply.headers["content-type"] == "application/problem+json", reply
            assert json.loads(reply.body)["status"] == reply.status

    async def repeated(self) -> None:
        """The same question: the same bytes under the same tag, whenever it is asked."""
        target = f"/kv?model=llama-3-8b&context={self.random.choice((1, 4096, 8192))}"
        reply = await self.connection.ask("GET", target)
        self._expect("repeated", reply, 200)
        known = self.tags.setdefault(target, (reply.headers["etag"], reply.body))
        if known != (reply.headers["etag"], reply.body):
            raise WrongAnswer(f"{target} changed")

    async def unchanged(self) -> None:
        """A caller that has the answer."""
        target, (etag, _) = self.random.choice([*self.tags.items()] or [("/kv", ("", b""))])
        reply = await self.connection.ask("GET", target, headers={"If-None-Match": etag})
        self._expect("unchanged", reply, 304 if etag else 422)

    async def head(self) -> None:
        """Headers alone."""
        reply = await self.connection.ask("HEAD", "/kv?model=llama-3-8b&context=8192")
        self._expect("head", reply, 200)

    async def fresh(self) -> None:
        """An inline config that was never sent before."""
        self.number += 1
        context = self.random.randint(1, 4096)
        body = {"config": config_of(self.number), "context": context}
        reply = await self.connection.ask("POST", "/kv", json.dumps(body).encode())
        self._expect("fresh", reply, 200)
        self._check(json.loads(reply.body), self.number, context)

    async def hub_model(self) -> None:
        """A model of the hub, now and then a new one, while the hub may be in trouble."""
        if self.random.random() < 0.1:
            self.number += 1
            self._publish(self.number)
        number = self.number - self.random.randint(0, 5)
        self._publish(number)
        reply = await self.connection.ask("GET", f"/kv?model=soak/m{number}&context=100")
        self._expect("hub model", reply, 200, *HUB_TROUBLE)
        if reply.status == 200:
            self._check(json.loads(reply.body), number, 100)

    async def missing(self) -> None:
        """A model that nobody has."""
        reply = await self.connection.ask("GET", f"/kv?model=soak/none{self.random.randint(0, 99)}")
        self._expect("missing", reply, 404, *HUB_TROUBLE)

    async def wrong(self) -> None:
        """What cannot be answered."""
        body = self.random.choice((b"{", b'{"model": 1}', b'{"context": -1}', b"\xff\xfe", b"[]"))
        reply = await self.connection.ask("POST", "/concurrency", body)
        self._expect("wrong", reply, 422)

    async def batch(self) -> None:
        """Many at once, with the hub's models and a mistake among them."""
        self._publish(self.number)
        items = [
            {"path": "/kv", "config": config_of(i), "context": i % 7 + 1}
            for i in range(BATCH_ITEMS - 2)
        ]
        items += [{"path": "/kv", "model": f"soak/m{self.number}", "context": 100}, {"path": "/no"}]
        reply = await self.connection.ask("POST", "/batch", json.dumps({"items": items}).encode())
        self._expect("batch", reply, 200)
        results = json.loads(reply.body)["results"]
        for i, result in enumerate(results[:-2]):
            if result["index"] != i or result["status"] != 200:
                raise WrongAnswer(f"batch item {i}: {result}")
            self._check(result["body"], i, i % 7 + 1)
        if results[-1]["status"] != 422 or results[-2]["status"] not in {200, *HUB_TROUBLE}:
            raise WrongAnswer(f"batch: {results[-2:]}")

    async def rude(self) -> None:
        """Somebody who hangs up, or does not speak HTTP."""
        self._publish(self.number)
        raw = self.random.choice(
            (
                b"GET /kv?model=llama-3-8b HTTP/1.1\r\nHost: x\r\n",
                b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                b"GET /kv?model=soak/m%d HTTP/1.1\r\nHost: x\r\n\r\n" % self.number,
            )
        )
        self.seen["rude"] += 1
        await self.connection.send_and_hang_up(raw)

    def _publish(self, number: int) -> None:
        name = f"soak/m{number}"
        if name not in self.hub.repos:
            self.hub.add(name, {"config.json": config_of(number)}, commit=f"{number:040x}")

    def _check(self, answer: dict[str, Any], number: int, context: int) -> None:
        expected = bytes_per_token(number) * context
        if answer["kv_bytes_per_sequence"] != expected:
            raise WrongAnswer(f"{number} at {context}: {answer}")
        model = answer["model"]
        if model["source"] == "hub" and (model["id"], model["revision"]) != (
            f"soak/m{number}",
            f"{number:040x}",
        ):
            raise WrongAnswer(f"{number}: {model}")
