"""What the process says and with which code it ends: refused at its start, or drained at its end."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.running.process import files_in, free_port, service

SERVE = ("-m", "app")
COMMAND = ("-c", "from app.cli import main; main()", "llama-3-8b")
SECRETS = ("s3cret", "hf_", "pass")


def _refused(words: tuple[str, ...], environment: dict[str, str]) -> list[str]:
    """The lines on stderr of a program that ends with exit code 2."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={"PATH": "", "PORT": str(free_port())} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert not any(secret in done.stderr for secret in SECRETS)
    return done.stderr.splitlines()


@pytest.mark.parametrize("words", [SERVE, COMMAND], ids=["serve", "command"])
def test_one_line_a_fault(words: tuple[str, ...], tmp_path: Path):
    lines = _refused(
        words,
        {
            "KVMATH_WORKERS": "abc",
            "PORT": "99999",
            "HF_ENDPOINT": "nonsense",
            "KVMATH_API_KEYS": "ci:long-enough-s3cret,s3cret",
            "KVMATH_REDIS_URL": "http://user:pass@host",
            "HUGGING_FACE_HUB_TOKEN": "hf_\u00e9",
            "HF_HOME": str(tmp_path),
        },
    )
    assert [line.split(": ")[:2] for line in lines] == [
        ["kvmath", "PORT"],
        ["kvmath", "KVMATH_WORKERS"],
        ["kvmath", "KVMATH_REDIS_URL"],
        ["kvmath", "KVMATH_API_KEYS"],
        ["kvmath", "HF_ENDPOINT"],
        ["kvmath", "HUGGING_FACE_HUB_TOKEN"],
    ]
    for line, rule in zip(
        lines,
        ("less than or equal to 65535", "integer", "redis://", "8", "URL", "ASCII"),
        strict=True,
    ):
        assert rule in line


def test_a_parent_refuses_before_it_starts_a_worker(tmp_path: Path):
    """Nothing but the reason is told: no process of a worker, no traceback of one."""
    bad = {"KVMATH_WORKERS": "2", "KVMATH_RATE_LIMIT": "3", "HF_HOME": str(tmp_path)}
    (line,) = _refused(SERVE, bad)
    assert line.startswith("kvmath: KVMATH_RATE_LIMIT: needs KVMATH_API_KEYS")


@pytest.mark.parametrize("words", [SERVE, COMMAND], ids=["serve", "command"])
@pytest.mark.parametrize(
    "url", ["redis://:s3cret@host:port/0", "redis://:s3cret@host/0?no_such=1", "redis://[s3cret"]
)
def test_an_address_of_the_store_that_its_client_refuses(
    words: tuple[str, ...], url: str, tmp_path: Path
):
    (line,) = _refused(words, {"KVMATH_REDIS_URL": url, "HF_HOME": str(tmp_path)})
    assert line.startswith("kvmath: KVMATH_REDIS_URL: ")


@pytest.mark.parametrize("each", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_drain_ends_with_0_and_leaves_no_file(
    workers: str, each: signal.Signals, tmp_path: Path
):
    """Half a request is there when the signal comes: it is answered, then all is over."""
    environment = {
        "KVMATH_WORKERS": workers,
        "KVMATH_LOG_LEVEL": "error",
        "KVMATH_LOG_REQUESTS": "0",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    async with service(environment) as (process, port):
        assert files_in(tmp_path) != []
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /kv HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n")
        writer.write(b"Content-Length: 23\r\n\r\n" + b'{"model": ')
        await asyncio.sleep(0.2)
        process.send_signal(each)
        await asyncio.sleep(0.2)
        writer.write(b'"llama-3-8b"}')
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert await asyncio.to_thread(process.wait, 20) == 0
    assert files_in(tmp_path) == []


def test_sigterm_while_it_starts_is_no_crash(tmp_path: Path):
    """Its own modules are there, the service's not yet."""
    word = "import signal, app.__main__ as m, app.settings as s\n"
    word += "s.Settings.from_environment = lambda: signal.raise_signal(signal.SIGTERM)\nm.main()"
    done = subprocess.run(
        [sys.executable, "-c", word], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
