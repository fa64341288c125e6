"""``python -m app``: serve with uvicorn as the settings say."""

import os
import signal
import socket
import sys
from importlib.util import find_spec

import uvicorn

from app.edge.logs import log_config
from app.edge.shared_folder import MULTIPROCESS, SharedFolder
from app.settings import BadSettings, Settings

BAD_SETTINGS = 2
KEEP_ALIVE_S = 75
"""How long an idle connection is kept: longer than by proxies (nginx and most load balancers 60 s), so
that none sends a request down a connection that is being closed."""


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are then given time to end.

    Exits with 0 after either of them, and with 2 where a setting is bad.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        # uvicorn puts its own in its place, and when all is drained raises the signal once more.
        signal.signal(each, lambda *_: sys.exit(0))
    try:
        settings = _settings()
        folder = _shared_folder(settings.workers)
    except BadSettings as bad:
        sys.stderr.writelines(f"kvmath: {fault}\n" for fault in bad.faults)
        sys.exit(BAD_SETTINGS)
    try:
        uvicorn.run(
            "app.main:create_app",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            loop="app.fair_loop:FairLoop" if settings.workers > 1 else "auto",
            http="app.edge.protocol:EdgeProtocol",
            ws="none",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=settings.shutdown_grace_s,
            log_config=log_config(settings.log_level.upper(), requests=settings.log_requests),
        )
    finally:
        if folder is not None:
            folder.leave()


def _settings() -> Settings:
    """The settings, checked once here and not by each worker at its start."""
    settings = Settings.from_environment()
    if settings.redis_url is not None:
        from app.hub.shared_link import connections  # noqa: PLC0415 -- imported only then

        connections(settings.redis_url.get_secret_value(), settings.redis_timeout_s)
    if settings.telemetry and find_spec("opentelemetry.sdk") is None:
        raise BadSettings(["KVMATH_TELEMETRY: needs opentelemetry-sdk, which is not installed"])
    _check_address(settings.host, settings.port)
    return settings


def _check_address(host: str, port: int) -> None:
    """Whether one can listen there: found out by a worker, it would be known late and told at length."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
    except socket.gaierror:
        raise BadSettings(["HOST: is no address, and no name of one that is known here"]) from None
    except OSError as error:
        fault = f"HOST, PORT: cannot be listened on ({error.strerror})"
        raise BadSettings([fault]) from None


def _shared_folder(workers: int) -> SharedFolder | None:
    """Where several workers put their numbers together, whatever folder the environment names.

    prometheus-client reads the variable when a worker imports it; files of another run that lie in
    a folder would be counted as well.
    """
    os.environ.pop(MULTIPROCESS, None)
    if workers == 1:
        return None
    try:
        folder = SharedFolder.new()
    except OSError:
        fault = "KVMATH_WORKERS: more than 1 need a folder for temporary files (TMPDIR)"
        raise BadSettings([fault]) from None
    os.environ[MULTIPROCESS] = folder.path
    return folder


if __name__ == "__main__":
    main()
