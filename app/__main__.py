"""``python -m app``: serve with uvicorn as the settings say."""

import os
import tempfile

import uvicorn

from app.edge.logs import log_config
from app.settings import Settings


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are then given time to end."""
    settings = Settings.from_environment()
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
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=settings.shutdown_grace_s,
            log_config=log_config(settings.log_level.upper(), requests=settings.log_requests),
        )


if __name__ == "__main__":
    main()
