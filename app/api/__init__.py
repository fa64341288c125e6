"""The HTTP routes, one router a file."""
