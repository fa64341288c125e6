"""The service as a process on a real socket: started, probed, sent SIGTERM with work in flight."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def process(port: int) -> Iterator["subprocess.Popen[bytes]"]:
    environment = os.environ | {"HOST": "127.0.0.1", "PORT": str(port), "HF_HUB_OFFLINE": "1"}
    started = subprocess.Popen([sys.executable, "-m", "app"], cwd=ROOT, env=environment)
    try:
        for _ in range(1000):
            assert started.poll() is None, "the server ended while starting"
            if healthcheck(port) == 0:
                break
            time.sleep(0.01)
        yield started
    finally:
        started.kill()
        started.wait()


def healthcheck(port: int) -> int:
    """The container's own health check, as a function of the port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return 0 if connection.getresponse().status == 200 else 1
    except OSError:
        return 1
    finally:
        connection.close()


def test_head_and_limits_over_a_real_server(process, port: int):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    for method, path, body, status in (
        ("HEAD", "/problems", None, 200),
        ("HEAD", "/docs/assets/swagger-ui.css", None, 200),
        ("GET", "/problems", None, 200),
        ("POST", "/problems", b"x" * 7_000_000, 413),
        ("GET", "/" + "x" * 10_000, None, 414),
        ("GET", "/problems", None, 200),
    ):
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == status, (method, path)
        assert (content == b"") == (method == "HEAD")
        if status == 413:  # the rest of the body was not read: the connection may be gone
            connection.close()
    connection.close()


def test_the_health_check_tells_a_server_from_none(process, port: int):
    def run() -> int:
        command = [sys.executable, "-m", "app.healthcheck"]
        environment = os.environ | {"PORT": str(port)}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode

    assert run() == 0
    process.kill()
    process.wait()
    assert run() == 1


def test_sigterm_lets_a_request_in_flight_end(process, port: int):
    """Half of a body is sent, then SIGTERM, then the rest: it is answered, and the process ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        head = b"POST /nowhere HTTP/1.1\r\nHost: kvmath\r\nContent-Length: 10\r\n\r\n"
        client.sendall(head + b"x" * 5)
        time.sleep(0.2)  # so that the server has taken the request up before it is told to stop
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        client.sendall(b"x" * 5)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert answer.endswith(b"}")
    # uvicorn raises the signal again once it has shut down, so that the parent sees it.
    assert process.wait(timeout=10) in {0, -signal.SIGTERM}
