"""A hub on a real loopback socket that behaves like the live one, and misbehaves on request."""

from tests.fake_hub.builders import gguf_bytes, safetensors_bytes
from tests.fake_hub.faults import Fault
from tests.fake_hub.hub import COMMIT, FakeHub, Repo

__all__ = ["COMMIT", "FakeHub", "Fault", "Repo", "gguf_bytes", "safetensors_bytes"]
