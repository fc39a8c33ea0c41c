"""Write the set to a file, compressed if its name ends with `.gz`."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

from bench.needles.generate import rows


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    write_needles(parser.parse_args().file)
    return 0


def write_needles(path: Path) -> None:
    """Write the set; the same set is always the same file."""
    content = "".join(json.dumps(row) + "\n" for row in rows()).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


if __name__ == "__main__":
    sys.exit(main())
