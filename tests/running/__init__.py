"""The service as a process of its own, a client for it, and models to ask it about."""
