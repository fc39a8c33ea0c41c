"""What was deleted and can be restored."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from engram import limits
from engram.model.fields import Between, Offset, Project
from engram.model.request import Request
from engram.model.value import UNLISTED, Value

TrashKind = Literal["conversation", "memory"]

Undo = Annotated[bool, "Restorable for a time."]
"""Of a deletion: whether it moves to the trash what it would remove for good."""

Restorable: TypeAlias = Annotated[datetime | None, UNLISTED]
"""In an answer to a deletion: until when it can be restored; None if it is final."""


class TrashEntry(Value):
    """A conversation or memory in the trash."""

    id: str
    kind: TrashKind
    title: str
    """The title of a conversation, or how the text of a memory begins."""
    project: str
    messages: int
    stored_bytes: int
    """As the quota counts them."""
    deleted_at: datetime
    deleted_by: str
    restorable_until: datetime
    content_hash: str | None = None
    """SHA-256 of the text of a memory."""


class TrashQuery(Request):
    """Filters and page of what is in the trash, what was deleted last first."""

    limit: Annotated[int, Between(1, limits.TRASH_PAGE_MAX)] = 20
    offset: Offset = 0
    kind: TrashKind | None = None
    project: Project | None = None


class TrashPage(Value):
    """One page of the trash and the total count."""

    entries: tuple[TrashEntry, ...]
    total: int
    next_offset: int | None


class Restored(Value):
    """What was restored; it is as it was before its deletion."""

    id: str
    kind: TrashKind
    messages: int
    pending: int
    """Messages and chunks that wait for vectors, of the whole organisation."""
    restored: Literal[True] = True


class TrashEmptied(Value):
    """What was removed from the trash for good."""

    removed: int
    stored_bytes: int
    held: int = 0
    """Entries that stay because a legal hold is on them."""
