"""The files of a store that hooks and the engine share."""

from __future__ import annotations

import os

_PRIVATE, _OTHERS = 0o700, 0o077


def pointer_to_engine(home: str) -> str:
    """Return the link that leads to the socket of the engine that began to serve last."""
    return os.path.join(home, "engine", "current")


def spool_directory(home: str) -> str:
    """Return the directory of the records that wait to be imported."""
    return os.path.join(home, "hooks")


def make_spool_directory(home: str) -> str:
    """Return that directory, which is made with the store's if they are missing; nobody else may enter."""
    directory = spool_directory(home)
    try:
        if os.stat(directory).st_mode & _OTHERS:
            os.chmod(directory, _PRIVATE)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(home), exist_ok=True)
        for each in (home, directory):
            try:
                os.mkdir(each, _PRIVATE)
            except FileExistsError:
                continue
    return directory
