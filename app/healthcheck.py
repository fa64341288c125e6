"""``python -m app.healthcheck``: exit code 0 when the service here may be sent requests."""

import http.client
import os
import sys


def main() -> int:
    """Ask /readyz on loopback; needs nothing that an image without curl lacks."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", int(os.environ.get("PORT") or "8000"), timeout=2
    )
    try:
        connection.request("GET", "/readyz")
        return 0 if connection.getresponse().status == http.HTTPStatus.OK else 1
    except (OSError, http.client.HTTPException):
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
