"""What a reader takes and yields: files, sessions, messages, memories, and the tally of what it left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from engram.model.value import Value
from engram.sources.places import Places

SpokenRole = Literal["user", "assistant", "system", "tool"]


class SourceError(Exception):
    """A file is not what its source writes, or it cannot be read."""


@dataclass(slots=True, kw_only=True)
class Session:
    """A session as far as its file has told; a reader completes it while it goes on."""

    id: str
    title: str | None = None
    directory: str | None = None
    """Where the program was started; the project follows from it."""
    project: str | None = None
    """The project by its name, if the source knows no directory."""
    branch: str | None = None
    parent: str | None = None
    """The session that started this one as a sub-agent."""
    agent: str | None = None
    """The sub-agent's own name or id."""
    written_at: datetime | None = None
    """When the program wrote to it last, if it says so."""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


class SourceMessage(NamedTuple):
    """A message of a session, with the source's own id of it."""

    session: Session
    id: str
    role: SpokenRole
    content: str
    occurred_at: datetime | None = None
    name: str | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    metadata: Mapping[str, Any] | None = None


class SourceMemory(NamedTuple):
    """A memory that another store keeps, with that store's own id of it."""

    id: str
    content: str
    created_at: datetime | None = None
    tags: tuple[str, ...] = ()
    project: str | None = None
    kind: str | None = None
    """The other store's type of it."""
    valid_to: datetime | None = None


Item: TypeAlias = SourceMessage | SourceMemory


@dataclass(slots=True)
class Tally:
    """What a reader met beside the messages it yielded."""

    read: int = 0
    """Records: lines, rows or entries."""
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Records that were left out, by reason."""
    drift: Counter[str] = field(default_factory=Counter[str])
    """Records of types that the reader does not know, by name."""
    end: int = 0
    """The offset in a file of lines up to which everything was read."""

    def skip(self, reason: str) -> None:
        """Count a record that is left out."""
        self.skipped[reason] += 1

    def meet(self, kind: object) -> None:
        """Count a record of a type that the reader does not know."""
        self.drift[str(kind)[:_KIND_CHARACTERS]] += 1

    def add(self, other: Tally) -> None:
        """Count what another tally counts."""
        self.read += other.read
        self.skipped += other.skipped
        self.drift += other.drift


STILL_WRITTEN = "still being written"
"""Why an answer is left out that the next import may find whole."""

_KIND_CHARACTERS = 100
"""Of a type's name that is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to read, from an offset at which a record begins."""

    path: Path
    start: int = 0


Read: TypeAlias = Callable[[SourceFile, Tally], Iterator[Item]]


def _nowhere(_places: Places) -> tuple[Path, ...]:
    return ()


def _is_any(_path: Path) -> bool:
    return True


class Source(Value):
    """A program whose files can be imported."""

    name: str
    title: str
    read: Read
    patterns: tuple[str, ...]
    """Which files below a root are its own."""
    roots: Callable[[Places], tuple[Path, ...]] = _nowhere
    """Where its files lie; nowhere for exports, whose path a user gives."""
    noun: str = "message"
    """What is stored of it."""
    resumes: bool = False
    """Whether reading from an offset gives the same messages the same ids."""
    keeps_days: Callable[[Places], int | None] | None = None
    """After how many days the program deletes a file; None if it does not."""
    is_rewritten: bool = False
    """Whether an answer may be in its database before it is whole, with nothing that says so."""
    is_chosen: Callable[[Path], bool] = _is_any
    """Returns False for a file that another one replaces."""


class ContentIds:
    """Ids for messages that have none: a digest of the message, and how many equal ones came before.

    Messages before or after do not matter, but equal ones do: all of a session must be read.
    """

    def __init__(self) -> None:
        self._seen = Counter[tuple[str, bytes]]()

    def next(self, session: Session, *parts: str) -> str:
        """Return the id of the next message of a session that consists of these parts."""
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()[:16]
        key = session.id, digest
        self._seen[key] += 1
        return f"{digest.hex()}:{self._seen[key]}"
