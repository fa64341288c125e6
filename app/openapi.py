"""``python -m app.openapi``: print, write or check the committed OpenAPI document."""

import argparse
import json
import sys
from pathlib import Path

from app.main import create_app
from app.settings import Settings


def document() -> str:
    """The document as it is committed: indented JSON with a closing newline."""
    schema = create_app(Settings.model_construct()).openapi()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Exit code 0, or 1 where the file to check is another than the code makes."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", type=Path, metavar="FILE")
    action.add_argument("--check", type=Path, metavar="FILE")
    options = parser.parse_args()
    text = document()
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text, encoding="utf-8")
    elif options.check is not None:
        if not options.check.exists() or options.check.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{options.check} is not what the code makes: run make openapi\n")
            return 1
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
