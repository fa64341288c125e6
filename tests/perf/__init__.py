"""Measurements, not tests: run by ``make bench``, never collected by pytest."""
