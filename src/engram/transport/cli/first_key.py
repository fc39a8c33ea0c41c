"""Hand over the first API key: on a terminal it is shown, elsewhere it goes to a private file.

What is no terminal is a log or a pipe to one, and those are read by more than the owner of the store.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path

from engram.errors import ConfigurationError
from engram.storage.private import FIRST_KEY

_MODE = 0o600


def is_watched() -> bool:
    """Return True if somebody reads stdout on a terminal."""
    return sys.stdout.isatty()


def kept_key(home: Path) -> Path | None:
    """Return the file of a first key that is still there."""
    path = home / FIRST_KEY
    return path if path.exists() else None


def keep_key(home: Path, secret: str) -> Path:
    """Write a key to a file that only its owner may read, and return where that is.

    Raises:
        ConfigurationError: it cannot be written; the remedy is named.
    """
    path = home / FIRST_KEY
    # Under another name first: a link that waits at the place of the file is replaced, not followed.
    draft = path.with_name(f"{FIRST_KEY}.{secrets.token_hex(8)}")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
        draft.replace(path)
    except OSError as exc:
        draft.unlink(missing_ok=True)
        remedy = "mend that, and make a key with `engram keys create NAME`"
        raise ConfigurationError(
            "ENGRAM_HOME",
            f"the first API key cannot be written to {path}: {exc.strerror}; {remedy}",
        ) from exc
    return path


def as_shell_text(path: Path) -> str:
    """Return what a shell replaces by the key in `path`, inside double quotes and outside."""
    return f"$(cat {shlex.quote(str(path))})"
