"""Rules of retention, legal holds, and what applying the rules removes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.fields import Length, Project, Source
from engram.model.request import Request
from engram.model.search import Kind
from engram.model.value import Value

_SPAN = re.compile(r"(\d{1,6})([dwy])")
_DAYS = {"d": 1, "w": 7, "y": 365}

Keep = Annotated[str, Length(2, 8), "How long: 90d, 12w or 2y."]


class Selector(Request):
    """What a rule or hold is about; a field that is left out stands for all."""

    kind: Kind | None = None
    project: Project | None = None
    source: Annotated[Source | None, "Where a note comes from, or the agent of a conversation."] = (
        None
    )


class RetentionDraft(Selector, kw_only=True):
    """A rule to set: what is older is removed for good."""

    keep: Keep

    def check(self) -> None:
        days = self.keep_days
        if not 1 <= days <= limits.RETENTION_DAYS_MAX:
            message = f"must be 1 to {limits.RETENTION_DAYS_MAX:,} days, not {days:,}"
            raise InvalidRequestError(message, field="keep")

    @property
    def keep_days(self) -> int:
        """Return the days that `keep` says."""
        found = _SPAN.fullmatch(self.keep)
        if found is None:
            raise InvalidRequestError("must be a span such as 90d, 12w or 2y", field="keep")
        return int(found[1]) * _DAYS[found[2]]


class RetentionRule(Value):
    """How long something is kept since it last changed."""

    id: str
    kind: Kind | None
    project: str | None
    source: str | None
    keep_days: int
    created_at: datetime
    created_by: str


class HoldDraft(Selector, kw_only=True):
    """A legal hold to place; without further fields it is on everything."""

    reason: Annotated[str, Length(1, limits.NAME_CHARACTERS_MAX), "Shown to whoever is refused."]
    id: Annotated[str | None, "Of one conversation or memory."] = None


class LegalHold(Value):
    """What nobody may delete until the hold is lifted."""

    id: str
    reason: str
    subject: str | None
    kind: Kind | None
    project: str | None
    source: str | None
    created_at: datetime
    created_by: str


class RetentionRun(Request):
    """Whether to remove what rules say, or only to count it."""

    dry_run: Annotated[bool, "Count, and remove nothing."] = False


class RetentionReport(Value):
    """What rules of retention remove, and what they leave because it is protected."""

    conversations: int = 0
    notes: int = 0
    documents: int = 0
    messages: int = 0
    """Of the conversations."""
    held: int = 0
    """Left because a legal hold is on them."""
    immutable: int = 0
    """Left because they are immutable."""
    dry_run: bool = False
    is_complete: bool = True
    """False if a turn of background work ended before all was removed."""
