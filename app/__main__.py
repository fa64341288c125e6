"""``python -m app``: serve with uvicorn as the settings say."""

import uvicorn

from app.settings import Settings


def main() -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are then given time to end."""
    settings = Settings.from_environment()
    uvicorn.run(
        "app.main:create_app",
        factory=True,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_grace_s,
    )


if __name__ == "__main__":
    main()
