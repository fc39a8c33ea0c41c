"""What each session has been shown, so that nothing is told twice while the agent still has it in view.

A small file for each session holds digests alone, and when they were shown. It is forgotten when the client
compacts the session, and a digest after a while, since an agent loses sight of what came long ago.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, cast

from engram import limits
from engram.hooks.places import make_spool_directory, spool_directory

_S = 1_000_000


class SessionView(NamedTuple):
    """What a session has in view."""

    is_known: bool
    """False if nothing was asked for this session yet: then it was not told what a new one should know."""
    seen: frozenset[str]


class ShownTexts:
    """The sessions of a store."""

    def __init__(self, home: Path) -> None:
        self._home = str(home.absolute())
        self._directory = Path(spool_directory(self._home)) / "sessions"

    def view(self, session: str, *, now: int) -> SessionView:
        """Return what a session has in view at a moment, in microseconds."""
        path = self._path(session)
        shown = _read(path)
        fresh = now - limits.HOOK_SHOWN_S * _S
        seen = frozenset(digest for digest, at in shown.items() if at > fresh)
        return SessionView(is_known=path.exists(), seen=seen)

    def add(self, session: str, digests: Iterable[str], *, now: int) -> None:
        """Note that a session was shown texts, or was asked for at all.

        Raises:
            OSError: the file cannot be written.
        """
        make_spool_directory(self._home)
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path = self._path(session)
        is_new = not path.exists()
        shown = {**_read(path), **dict.fromkeys(digests, now)}
        newest = sorted(shown.items(), key=lambda each: -each[1])[: limits.HOOK_SHOWN_MAX]
        _replace(path, dict(newest))
        if is_new:
            self._drop_oldest()

    def remove(self, session: str, digests: Iterable[str], *, is_unknown: bool) -> None:
        """Take back that a session was shown texts, or that it was asked for at all.

        Raises:
            OSError: the file cannot be written.
        """
        path = self._path(session)
        if is_unknown:
            path.unlink(missing_ok=True)
        elif path.exists():
            left_out = frozenset(digests)
            _replace(path, {key: at for key, at in _read(path).items() if key not in left_out})

    def forget(self, session: str, *, until: int) -> None:
        """Forget what a session had seen at a moment, in microseconds; it stays known."""
        path = self._path(session)
        if path.exists():
            _replace(path, {digest: at for digest, at in _read(path).items() if at > until})

    def _drop_oldest(self) -> None:
        files = sorted(self._directory.glob("*.json"), key=_age_of, reverse=True)
        for path in files[limits.HOOK_SESSIONS_MAX :]:
            path.unlink(missing_ok=True)

    def _path(self, session: str) -> Path:
        name = sha256(session.encode("utf-8", "replace")).hexdigest()[:24]
        return self._directory / f"{name}.json"


def _replace(path: Path, shown: Mapping[str, int]) -> None:
    written = path.with_suffix(".new")
    written.write_text(json.dumps(shown))
    written.replace(path)


def _read(path: Path) -> Mapping[str, int]:
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    entries = cast("dict[str, object]", found).items() if isinstance(found, dict) else ()
    return {digest: at for digest, at in entries if isinstance(at, int)}


def _age_of(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
