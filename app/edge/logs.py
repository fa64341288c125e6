"""Logs as JSON lines on stderr: those of requests come as such, all others are made so here."""

import json
import logging
import time
import traceback
from typing import Any

_MINUTE_S = 60.0


class JsonLines(logging.Formatter):
    """One JSON object a record: time, level, logger, message, and the exception's class and trace.

    Messages of this service hold ids, paths and numbers, never headers, queries or bodies.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            line["trace"] = "".join(traceback.format_tb(record.exc_info[2]))
        return json.dumps(line)


class OnceAMinute(logging.Filter):
    """Of warnings in the same words, one a minute: uvicorn has them for what any caller may send."""

    def __init__(self) -> None:
        super().__init__()
        self._told_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is told."""
        if record.levelno != logging.WARNING:
            return True
        words = str(record.msg)
        told = record.created - self._told_at.get(words, 0.0) >= _MINUTE_S
        if told:
            self._told_at[words] = record.created
        return told


def log_config(level: str, *, requests: bool) -> dict[str, Any]:
    """What `logging.config.dictConfig` takes: one handler for all, a bare one for requests."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {"()": "app.edge.logs.JsonLines"},
            "bare": {"format": "%(message)s"},
        },
        "filters": {"minute": {"()": "app.edge.logs.OnceAMinute"}},
        "handlers": {
            "json": {"class": "logging.StreamHandler", "formatter": "json"},
            "bare": {"class": "logging.StreamHandler", "formatter": "bare"},
        },
        "root": {"level": level, "handlers": ["json"]},
        "loggers": {
            "kvmath.access": {
                "level": "INFO" if requests else "WARNING",
                "handlers": ["bare"],
                "propagate": False,
            },
            "uvicorn.error": {"level": level, "filters": ["minute"]},
            # They would log each address that is asked, and all header fields.
            "httpx": {"level": "WARNING"},
            "httpcore": {"level": "WARNING"},
        },
    }
