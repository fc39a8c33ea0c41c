"""What clients asked of a store and what they were told, with when each call began and ended."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["create", "append", "read", "search", "delete"]
Outcome: TypeAlias = Literal["ok", "failed", "unknown"]
"""Failed: certainly not done. Unknown: done or not, as when the process died before it answered."""

NOT_FOUND = "not_found"


class Seen(msgspec.Struct, frozen=True):
    """A message as an answer showed it."""

    conversation: str
    sequence: int
    sha256: str


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one client; fields that its kind does not have are empty."""

    kind: Kind
    client: str
    process: str
    tenant: str
    start: float
    """Seconds of one monotonic clock, which all calls of a history share."""
    end: float
    outcome: Outcome
    code: str | None = None
    """Code of the error, if there was one."""
    conversation: str | None = None
    sent: tuple[str, ...] = ()
    """SHA-256 of each message that an append carries."""
    words: tuple[str, ...] = ()
    """Of an append: the word that only this message has, for each. Of a search: the word asked for."""
    first: int = 0
    last: int = 0
    """Of an append: the sequences that were acknowledged."""
    offset: int = 0
    total: int = 0
    is_whole: bool = True
    """Of a read: the messages skipped, those that there are, and whether the page reaches the end."""
    seen: tuple[Seen, ...] = ()

    @property
    def is_gone(self) -> bool:
        """Whether the answer was that there is no such conversation."""
        return self.code == NOT_FOUND


class Recorder:
    """Calls of many threads, in the order in which they ended."""

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._lock = threading.Lock()
        self.succeeded = 0
        """How many calls were answered as they should be."""

    def record(self, call: Call) -> None:
        """Add a call."""
        with self._lock:
            self._calls.append(call)
            self.succeeded += call.outcome == "ok"

    def calls(self) -> list[Call]:
        """Return what was recorded so far."""
        with self._lock:
            return list(self._calls)


def digest(text: str) -> str:
    """Return the SHA-256 of a text's UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def save(calls: Iterable[Call], path: Path) -> None:
    """Write a history, a line of JSON for each call."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoder = msgspec.json.Encoder()
    path.write_bytes(b"".join(encoder.encode(call) + b"\n" for call in calls))


def load(path: Path) -> Sequence[Call]:
    """Read a history that `save` wrote."""
    decoder = msgspec.json.Decoder(Call)
    return [decoder.decode(line) for line in path.read_bytes().splitlines()]
