"""Logs whose figures are nonsense: an answer all the same, whose parts still add up."""

import asyncio
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from app.answers.verify import verify
from app.catalog.models import model_catalogue
from app.logs.reader import read_log
from app.resolve.model import ModelResolver
from app.schemas.verify import VerifyBody
from tests.logs import samples

LOGS = [
    samples.VLLM_V1,
    samples.VLLM_V0,
    samples.VLLM_0_33,
    samples.VLLM_TOO_SMALL,
    samples.SGLANG,
    samples.TENSORRT_LLM,
    samples.LLAMA_CPP,
    samples.LLAMA_CPP_2024,
]
NUMBERS = ["0", "-1", "1", "0.0", "17", "0.01", "-5.5", "1000000", "999999999999999999", "1e9", ""]


class NoFiles:
    async def fetch_model(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("only the catalogue is asked")

    async def fetch_weights(self, *_: Any) -> Any:
        raise AssertionError("only the catalogue is asked")


MODELS = ModelResolver(model_catalogue(), NoFiles())


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(LOGS), st.randoms(use_true_random=False), st.integers(0, 60))
def test_damaged_figures(text: str, random: Any, damage: int) -> None:
    def spoil(match: re.Match[str]) -> str:
        return random.choice(NUMBERS) if random.randrange(100) < damage else match[0]

    lines = [line for line in text.splitlines() if random.randrange(100) >= damage / 3]
    log = re.sub(r"\d+(?:\.\d+)?", spoil, "\n".join(lines)) or "-"
    asked = VerifyBody(log=log, model="llama-3-8b", gpu="h100", explain=True)
    read = read_log(log)
    if read is None:
        return
    found = asyncio.run(verify(asked, read, MODELS))
    for split in filter(None, (found.kv_pool, found.from_formula)):
        assert split.from_bytes + sum(part.bytes for part in split.parts) == split.to_bytes
    assert found.model_dump_json()
