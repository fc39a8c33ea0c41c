"""Acts on many memories at once, and taking acts back."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.fields import Length, Project, Source, Tags
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Category, Importance, MemoryFilters, MemoryType, Validity
from engram.model.project import ChangeId, ChangeKind
from engram.model.request import Request
from engram.model.value import Value

T = TypeVar("T")


class MemorySelection(Request):
    """Selects memories of all projects by their fields."""

    project: Project | None = None
    memory_type: MemoryType | None = None
    category: Category | None = None
    source: Source | None = None
    tags: Annotated[Tags, "Any may match."] = ()
    episode_id: EpisodeId | None = None
    validity: Annotated[
        Validity,
        "Those that are valid now, those that were forgotten or are not valid now, or any.",
    ] = "now"
    ids: Annotated[
        tuple[MemoryId, ...], Length(0, limits.MEMORY_PAGE_MAX), "Only these, if any is given."
    ] = ()

    @property
    def filters(self) -> MemoryFilters:
        """Return the conditions, without those that nothing was given for."""
        return MemoryFilters(
            projects=_listed(self.project) or None,
            memory_types=_listed(self.memory_type),
            categories=_listed(self.category),
            sources=_listed(self.source),
            tags=self.tags,
            episode_id=self.episode_id,
            ids=self.ids,
        )


def _listed(value: T | None) -> tuple[T, ...]:
    return () if value is None else (value,)


class ManyMemories(MemorySelection):
    """Memories to change at once, and how."""

    change: Annotated[
        Literal["importance", "trash"], "Change their importance, or move them to the trash."
    ]
    importance: Annotated[Importance | None, "From now on, with change=importance."] = None
    dry_run: Annotated[bool, "Only count them."] = False

    def check(self) -> None:
        if (self.importance is None) != (self.change == "trash"):
            raise InvalidRequestError("goes with change=importance", field="importance")


class ManyChanged(Value, omit_defaults=True):
    """What was changed at once, or would be."""

    dry_run: bool
    total: int
    """How many match; a call changes only the newest of them."""
    changed: int
    refused: int = 0
    """Immutable, under a legal hold, or gone meanwhile."""
    change_id: ChangeId | None = None
    """By which it can be undone."""


class Undone(Value):
    """What was taken back."""

    kind: ChangeKind
    restored: int
    refused: int
    """Changed otherwise or gone since, so left as they are."""
