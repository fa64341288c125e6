"""What the process says and with which code it ends: refused at its start, or drained at its end."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import _shared_folder
from app.settings import BadSettings
from tests.conftest import ROOT
from tests.fake_hub import FakeHub
from tests.running.client import Connection
from tests.running.configs import config_of
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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_host_that_is_not_known(workers: str, tmp_path: Path):
    bad = {"HOST": "no.such.host.invalid", "KVMATH_WORKERS": workers, "HF_HOME": str(tmp_path)}
    (line,) = _refused(SERVE, bad)
    assert line.startswith("kvmath: HOST: ")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken(workers: str, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        bad = {"PORT": port, "KVMATH_WORKERS": workers, "HF_HOME": str(tmp_path)}
        (line,) = _refused(SERVE, bad)
    assert line == "kvmath: HOST, PORT: cannot be listened on (Address already in use)"


def test_telemetry_without_what_would_send_it(tmp_path: Path):
    """FastAPI's own would say nothing and send nothing; the lock has the interface alone."""
    (line,) = _refused(SERVE, {"KVMATH_TELEMETRY": "1", "HF_HOME": str(tmp_path)})
    assert line.startswith("kvmath: KVMATH_TELEMETRY: needs opentelemetry-sdk")


def test_several_workers_without_a_place_for_their_numbers(monkeypatch: pytest.MonkeyPatch):
    """As in a container whose root is read-only and has no other folder."""
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(BadSettings, match=r"^KVMATH_WORKERS: .*TMPDIR"):
        _shared_folder(2)
    assert _shared_folder(1) is None


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
        assert len(files_in(tmp_path)) == (0 if workers == "1" else 1)
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


async def test_what_a_caller_sends_is_not_logged(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    """Warnings that any caller can cause come once, and no line holds queries or header fields."""
    async with FakeHub() as hub:
        hub.add("org/m", {"config.json": config_of(1)}, commit="c" * 40)
        environment = {
            "KVMATH_LOG_LEVEL": "debug",
            "HF_ENDPOINT": hub.url,
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": "",
            "HF_HOME": str(tmp_path),
        }
        async with service(environment) as (_, port):
            caller = Connection(port)
            upgrade = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Key": "s3cret",
            }
            for _ in range(5):
                await caller.send_and_hang_up(b"s3cret\x00 / HTTP/1.1\r\n\r\n")
                reply = await caller.ask("GET", "/livez?s3cret=1", headers=upgrade)
                assert reply.status == 422
                caller.close()
            asked = "/kv?model=org/m&context=10&unknown=s3cret"
            assert (await caller.ask("GET", asked)).status == 422
            assert (await caller.ask("GET", "/kv?model=org/m&context=10")).status == 200
            caller.close()
    told = capfd.readouterr().err
    lines = [json.loads(line) for line in told.splitlines()]
    assert sum(line.get("path") == "/livez" for line in lines) == 5
    warnings = [line["message"] for line in lines if line.get("level") == "warning"]
    assert "Invalid HTTP request received." in warnings
    assert len(warnings) == len(set(warnings))
    assert "s3cret" not in told
    assert "c" * 40 not in told  # X-Repo-Commit of the hub's answer


def test_sigterm_while_it_starts_is_no_crash(tmp_path: Path):
    """Its own modules are there, the service's not yet."""
    word = "import signal, app.__main__ as m, app.settings as s\n"
    word += "s.Settings.from_environment = lambda: signal.raise_signal(signal.SIGTERM)\nm.main()"
    done = subprocess.run(
        [sys.executable, "-c", word], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
