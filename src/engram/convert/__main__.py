"""Run the converter: `python -m engram.convert KIND SOURCE TARGET`."""

from __future__ import annotations

import sys

from engram.convert.worker import main

if __name__ == "__main__":
    sys.exit(main())
