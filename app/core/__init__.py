"""The arithmetic: frozen facts in, bytes and times out. Imports the standard library alone."""
