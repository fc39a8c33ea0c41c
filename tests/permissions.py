"""Being somebody whom permissions bind."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unprivileged() -> Generator[None]:
    """Be nobody for a while, since permissions do not bind root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def give_away(*paths: Path) -> None:
    """Let whoever is `unprivileged` own these."""
    if os.geteuid() == 0:
        for path in paths:
            os.chown(path, NOBODY, -1)
