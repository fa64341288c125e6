"""From what a caller names (a model, a config, a GPU) to the facts the core works with."""
