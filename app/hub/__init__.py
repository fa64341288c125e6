"""The hub: models' files from Hugging Face, its local cache or a folder. Only this package talks HTTP."""
