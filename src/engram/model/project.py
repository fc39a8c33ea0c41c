"""What users say of projects, and acts on many things that can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NewType

from engram.model.value import Value

ChangeId = NewType("ChangeId", str)
"""Names an act on many things, by which it is taken back."""

ChangeKind = Literal["importance", "trash", "merge"]


class ProjectRule(Value, omit_defaults=True):
    """An alias of another project, or an excluded project, for which nothing is stored."""

    project: str
    same_as: str | None = None
    """The project that sessions are kept in instead; without one nothing of them is kept."""
    created_at: datetime
    created_by: str

    @property
    def is_excluded(self) -> bool:
        """Return True if nothing of the project is kept."""
        return self.same_as is None


class MovedProject(Value):
    """Ids of what was moved from one project to another."""

    conversations: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()
    episodes: tuple[str, ...] = ()
    held: int = 0
    """Conversations and memories that stay because they are under a legal hold."""


class ProjectMerged(Value):
    """How much was moved from one project to another."""

    project: str
    into: str
    conversations: int
    memories: int
    episodes: int
    held: int
    """Conversations and memories that stay because they are under a legal hold."""
    truncated: bool
    """True if a bound was reached: merged again, the rest is moved."""
    change_id: ChangeId
    """By which it can be undone."""


class ChangeSet(Value):
    """What an act on many things has changed."""

    id: ChangeId
    kind: ChangeKind
    at: datetime
    actor: str
    items: Mapping[str, Any]
    """Ids, and what they were before; the kind says which."""


class ProjectNames:
    """Answers which project a name stands for."""

    def __init__(self, rules: Iterable[ProjectRule] = ()) -> None:
        self._rules = {rule.project: rule for rule in rules}

    def resolve(self, project: str) -> str | None:
        """Return the project that a name stands for; None if nothing of it is kept."""
        rule = self._rules.get(project)
        if rule is None:
            return project
        # An alias never leads to an alias, but the project it leads to may be excluded.
        return None if rule.same_as is None else self.resolve(rule.same_as)
