"""The examples of docs/verify.md, as the command prints them: `python -m tests.cli.verify_docs`."""

import io
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from app.commands import verify

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verify.md"
_LOG = re.compile(r"<!-- log: ([\w-]+) -->\n```\n(.*?)```", re.DOTALL)
_OUTPUT = re.compile(r"(<!-- output: verify ([\w-]+)\.log (.*?) -->\n```\n)(.*?)(```)", re.DOTALL)


def page() -> str:
    """The page with every output as it is now."""
    text = PAGE.read_text(encoding="utf-8")
    logs = dict(_LOG.findall(text))
    return _OUTPUT.sub(lambda m: m[1] + _output(logs[m[2]], m[3].split()) + m[5], text)


def _output(log: str, words: list[str]) -> str:
    options = dict(zip(words[::2], words[1::2], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "start.log"
        file.write_text(log, encoding="utf-8")
        printed = io.StringIO()
        with redirect_stdout(printed):
            verify(file, options.get("--model"), {"gpu": options.get("--gpu")}, as_json=False)
    return "".join(line.rstrip() + "\n" for line in printed.getvalue().splitlines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.exit(0)
