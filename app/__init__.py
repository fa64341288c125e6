"""KV cache arithmetic for LLM inference, as a service and a command."""

__version__ = "0.1.0"
