"""How vLLM's logs say that another model drafts: in commands, arguments and config lines."""

import pytest

from app.logs.reader import read_log

MEASURED = "INFO [gpu_worker.py:1] Available KV cache memory: 50.0 GiB\n"
EAGLE = "acme/tiny-8b-eagle3"


@pytest.mark.parametrize(
    ("line", "method", "draft", "tokens"),
    [
        (
            "with config: model='acme/tiny-8b', speculative_config=SpeculativeConfig("
            f"method='eagle3', model='{EAGLE}', num_spec_tokens=3), dtype=torch.bfloat16",
            "eagle3", EAGLE, 3,
        ),
        (
            "non-default args: {'model': 'acme/tiny-8b', 'speculative_config': {'method': "
            f"'draft_model', 'model': '{EAGLE}', 'num_speculative_tokens': 5}}}}",
            "draft_model", EAGLE, 5,
        ),
        # V0 has no method, and calls it draft_model
        (
            "Initializing an LLM engine (v0.6.6) with config: model='acme/tiny-8b', "
            f"speculative_config=SpeculativeConfig(draft_model='{EAGLE}', num_spec_tokens=7)",
            None, EAGLE, 7,
        ),
        (
            f"$ vllm serve acme/tiny-8b --speculative-model {EAGLE} --num-speculative-tokens 5",
            None, EAGLE, 5,
        ),
        (
            """$ vllm serve acme/tiny-8b --speculative-config '{"method": "eagle3", """
            f""""model": "{EAGLE}", "num_speculative_tokens": 2}}'""",
            "eagle3", EAGLE, 2,
        ),
        (
            f"""$ vllm serve acme/tiny-8b -sc '{{"model":"{EAGLE}","num_speculative_tokens":2}}'""",
            None, EAGLE, 2,
        ),
        (
            f"$ vllm serve acme/tiny-8b --spec-method eagle3 --spec-model {EAGLE} --spec-tokens 4",
            "eagle3", EAGLE, 4,
        ),
        ("with config: model='acme/tiny-8b', speculative_config=None", None, None, None),
    ],
)  # fmt: skip
def test_where_a_draft_is_named(
    line: str, method: str | None, draft: str | None, tokens: int | None
) -> None:
    log = read_log(f"INFO {line}\n{MEASURED}")
    assert log is not None
    said = log.settings
    assert said.model == "acme/tiny-8b"
    assert (said.speculative_method, said.draft_model, said.num_speculative_tokens) == (
        method, draft, tokens,
    )  # fmt: skip
