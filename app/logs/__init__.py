"""Startup logs of inference engines: text in, settings and measurements out.

Plain text handling with bounds: no files, no network, nothing kept. `reader.read_log` is the entry;
one module an engine holds its sentences.
"""
