"""Moved to ``tests.running.process``; goes with the last import from here."""

from tests.running.process import free_port, service

__all__ = ["free_port", "service"]
