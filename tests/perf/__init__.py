"""Measurements, not tests: run by ``make bench``, ``soak`` and ``fuzz``, never collected by pytest."""
