"""``make fuzz``: mutated model configs, each of which gets an answer or a reason, never a crash.

Real configs are mutated: those of the catalogue, and published ones where a folder of them lies
beside the repository. FUZZ_CASES bounds it; the seed is printed, so that a finding comes back.
Coverage-guided by atheris where that is installed and FUZZ_ATHERIS=1.
"""

import asyncio
import importlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx

from app.catalog.models import model_catalogue
from app.main import create_app
from app.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "truth" / "configs"
CASES = int(os.environ.get("FUZZ_CASES", "100000"))
ALLOWED = frozenset({200, 422})
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 1.5, 1e308, float("inf"), float("nan"), 2**31, 2**63,
    10**30, "", "x", "bfloat16", "float8_e4m3fn", "\ud800", [], [0], [None], [[]], {}, {"a": 1},
    [1, 2, 3], ["full_attention"], "full_attention", {"model_type": "llama"},
)  # fmt: skip


def real_configs() -> list[dict[str, Any]]:
    """What is mutated."""
    found = [_plain(entry.facts) for entry in model_catalogue().models]
    if PUBLISHED.is_dir():
        found += [
            json.loads(file.read_text(encoding="utf-8"))
            for file in sorted(PUBLISHED.glob("*.json"))
        ]
    return [config for config in found if isinstance(config, dict)]


def mutated(config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A copy with one to four changes anywhere in it."""
    changed: dict[str, Any] = json.loads(json.dumps(config))
    for _ in range(chance.randint(1, 4)):
        _change(changed, chance)
    return changed


def _change(config: dict[str, Any], chance: random.Random) -> None:
    place: Any = config
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = chance.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and chance.random() < 0.7:
            place = place[key]
            continue
        break
    kind = chance.random()
    if kind < 0.2 and isinstance(place, dict):
        del place[key]
    elif kind < 0.3 and isinstance(place, list):
        place.append(deepcopy(chance.choice(ODD)))
    elif kind < 0.6 and type(place[key]) is int:
        place[key] = place[key] * chance.choice((0, -1, 2, 3)) + chance.choice((0, 1, -1, 10**6))
    else:
        place[key] = deepcopy(chance.choice(ODD))


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


class Asker:
    """Asks the service, in this process, about one config after the other."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.statuses: Counter[int] = Counter()

    async def ask(self, config: dict[str, Any], path: str) -> None:
        """Raise where the answer is neither one nor a reason."""
        body = {"config": config, "context": 4096}
        if path != "/kv":
            body["gpu"] = "h100"
        answer = await self.client.post(
            path, content=json.dumps(body), headers={"content-type": "application/json"}
        )
        self.statuses[answer.status_code] += 1
        if answer.status_code not in ALLOWED:
            raise AssertionError(f"{answer.status_code} for {path} {json.dumps(config)}")
        json.loads(answer.content, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} in an answer")


async def with_service(run: Callable[[Asker], Any]) -> Asker:
    """Run something with the service at hand."""
    app = create_app(
        Settings(hf_hub_offline=True, hf_home=ROOT / "no-such-folder", answer_cache_bytes=0)
    )
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://fuzz") as client,
    ):
        asker = Asker(client)
        await run(asker)
    return asker


async def _at_random(asker: Asker, cases: int, seed: int) -> None:
    chance, configs = random.Random(seed), real_configs()
    paths = ("/kv", "/kv", "/concurrency", "/crossover")
    for number in range(cases):
        await asker.ask(mutated(chance.choice(configs), chance), paths[number % len(paths)])


class _Steered(random.Random):
    """Chance as a fuzzer steers it: the bits of its bytes, and zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self._bits = int.from_bytes(data, "little")

    def getrandbits(self, k: int) -> int:
        """The next bits."""
        taken = self._bits & ((1 << k) - 1)
        self._bits >>= k
        return taken

    def random(self) -> float:
        """A fraction of the next byte: what is compared here are tenths."""
        return self.getrandbits(8) / 256


def _guided(cases: int) -> None:
    """The same mutations, chosen by the branches they reach."""
    atheris = importlib.import_module("atheris")
    from app.errors import KvmathError  # noqa: PLC0415
    from app.resolve.model import shape_of  # noqa: PLC0415

    configs = real_configs()
    shape_of(configs[0])  # loads the families, which are then instrumented too

    def one(data: bytes) -> None:
        chance = _Steered(data)
        try:
            shape_of(mutated(chance.choice(configs), chance))
        except KvmathError:
            return

    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f"-runs={cases}", "-max_len=64", "-len_control=0"], one)
    atheris.Fuzz()


def main() -> int:
    """Run it; the exit code is that of a crash, if there is one."""
    if os.environ.get("FUZZ_ATHERIS") == "1":
        _guided(CASES)
        return 0
    seed = int(os.environ.get("FUZZ_SEED", str(time.time_ns() % 10**9)))
    print(f"{CASES:,} cases, FUZZ_SEED={seed}", flush=True)
    asker = asyncio.run(with_service(lambda asker: _at_random(asker, CASES, seed)))
    print(f"no crash: {dict(asker.statuses)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
