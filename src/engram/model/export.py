"""Exports and imports of an organisation: what is chosen, and what an import did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from engram.model.access import QuotaWarning
from engram.model.fields import DayOrMoment, Length, Name, Project
from engram.model.request import Request
from engram.model.search import check_since_before
from engram.model.value import INTERNAL, Value

ExportKind = Literal["conversation", "note", "document"]
"""As in a search: a note is any memory without a document."""

ItemKind = Literal[
    "conversation",
    "message",
    "episode",
    "memory",
    "version",
    "document",
    "relation",
    "feedback",
    "tombstone",
    "forgotten",
]
"""What an export has lines of, and an import counts."""


class ExportRequest(Request):
    """Selects what an export holds; without conditions that is everything."""

    project: Annotated[Project | None, "Only of this project."] = None
    kinds: Annotated[tuple[ExportKind, ...], Length(0, 3), "Only these. [default: all]"] = ()
    since: Annotated[DayOrMoment | None, "Only what was stored or changed since."] = None
    before: Annotated[DayOrMoment | None, "Only what was first stored before."] = None
    subject: Annotated[
        Name | None,
        "Only what a speaker name, agent id, source or metadata field equal to this marks.",
    ] = None
    compression: Annotated[Literal["none", "zstd"], "Of the stream."] = "none"

    def check(self) -> None:
        check_since_before(self.since, self.before)

    def holds(self, *kinds: ExportKind) -> bool:
        """Return True if any of these kinds is chosen."""
        return not self.kinds or not set(self.kinds).isdisjoint(kinds)

    @property
    def is_whole(self) -> bool:
        """Return True if nothing is left out."""
        return self == ExportRequest(compression=self.compression)


class ImportProblem(Value, omit_defaults=True):
    """Something of an export that was not stored, and why."""

    kind: ItemKind
    id: str
    reason: str


class ImportReceipt(Value, omit_defaults=True):
    """What an import did; all that is counted as stored is durable and searchable."""

    stored: Mapping[ItemKind, int]
    present: Mapping[ItemKind, int]
    """What was here already, and the same."""
    erased: int = 0
    """Conversations and memories left out because they were deleted here."""
    conflicts: int = 0
    """What was here already with other content; it was left as it was."""
    refused: int = 0
    """What this server cannot store."""
    problems: tuple[ImportProblem, ...] = ()
    """The first of the conflicts and refusals."""
    keys: int = 0
    """Keys that the export names; an export has no secrets, so none is made."""
    quota_warning: Annotated[QuotaWarning, INTERNAL] = None
