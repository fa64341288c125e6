"""A question that is given up leaves nothing behind, at whatever moment that happens."""

import asyncio

from app.hub.client import HubClient
from app.hub.wire import Question
from tests.fake_hub import FakeHub, Fault
from tests.hub.conftest import LLAMA, MakeClient


async def test_giving_up_at_any_moment_costs_no_connection(
    hub: FakeHub, make_client: MakeClient
) -> None:
    # Two connections: were one lost at any of these moments, the pool would soon be empty.
    client = make_client(connections=2)
    question = Question(url=f"{hub.url}/org/model/resolve/main/config.json", limit=1000)
    for steps in range(120):
        asked = asyncio.create_task(client._wire.ask(question))
        for _ in range(steps):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    async with asyncio.timeout(10):
        for _ in range(4):
            reply = await client._wire.ask(question)
            assert reply.trail.repo_id == "org/model"


async def test_deadlines_at_any_moment_cost_no_connection(
    hub: FakeHub, make_client: MakeClient
) -> None:
    hub.fault("hasty", Fault.SLOW_BODY)
    client = make_client(connections=2, timeout_s=0.01)
    for number in range(20):
        hub.add(f"org/hasty{number}", {"config.json": LLAMA})
        await asyncio.gather(client.fetch_model(f"org/hasty{number}"), return_exceptions=True)
    question = Question(url=f"{hub.url}/org/model/resolve/main/config.json", limit=1000)
    async with asyncio.timeout(10):
        while not await _answered(client, question):
            await asyncio.sleep(0)


async def _answered(client: HubClient, question: Question) -> bool:
    (reply,) = await asyncio.gather(client._wire.ask(question), return_exceptions=True)
    return not isinstance(reply, BaseException)


async def test_closing_leaves_no_task(hub: FakeHub, make_client: MakeClient) -> None:
    hub.fault("", Fault.SILENT)
    before = asyncio.all_tasks()
    client = make_client()
    waiting = asyncio.create_task(client.fetch_model("org/model"))
    await asyncio.sleep(0.05)
    await client.aclose()
    await asyncio.gather(waiting, return_exceptions=True)
    await hub.hub.stop()
    assert asyncio.all_tasks() <= before
