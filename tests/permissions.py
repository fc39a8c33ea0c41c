"""Being somebody whom permissions bind."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

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
