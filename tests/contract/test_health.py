"""The probes."""

import httpx


async def test_probes_answer_and_are_never_kept(client: httpx.AsyncClient):
    for path in ("/livez", "/readyz"):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["cache-control"] == "no-store"
