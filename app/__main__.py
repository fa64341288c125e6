"""``python -m app``: serve with uvicorn as the settings say."""

import os
import signal
import sys
import tempfile

import uvicorn

from app.edge.logs import log_config
from app.settings import BadSettings, Settings

BAD_SETTINGS = 2


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are then given time to end.

    Exits with 0 after either of them, and with 2 where a setting is bad.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        # uvicorn puts its own in its place, and when all is drained raises the signal once more.
        signal.signal(each, lambda *_: sys.exit(0))
    try:
        settings = _settings()
    except BadSettings as bad:
        sys.stderr.writelines(f"kvmath: {fault}\n" for fault in bad.faults)
        sys.exit(BAD_SETTINGS)
    with tempfile.TemporaryDirectory(prefix="kvmath-metrics-") as folder:
        if settings.workers > 1:
            # Read by prometheus-client when a worker imports it: numbers of all workers together.
            os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", folder)
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
            timeout_graceful_shutdown=settings.shutdown_grace_s,
            log_config=log_config(settings.log_level.upper(), requests=settings.log_requests),
        )


def _settings() -> Settings:
    """The settings, checked once here and not by each worker at its start."""
    settings = Settings.from_environment()
    if settings.redis_url is not None:
        from app.hub.shared_link import connections  # noqa: PLC0415 -- imported only then

        connections(settings.redis_url.get_secret_value(), settings.redis_timeout_s)
    return settings


if __name__ == "__main__":
    main()
