"""Erasures: what to erase, and the receipt."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.fields import VISIBLE_ONLY, Between, Length, Project
from engram.model.ids import ConversationId, ErasureId
from engram.model.request import Request
from engram.model.value import Value

ErasureScope = Literal["conversation", "project", "subject"]
ErasureState = Literal["hiding", "removing", "rewriting", "finished"]
"""Until `removing` some of it may still be found. Files are written anew while `rewriting`."""

ERASURE_PREFIX = "ers_"

SUBJECT_FIELDS = ("name", "agent_id", "source", "metadata.KEY")
"""Of messages; of conversations; of memories; of conversations and messages."""


class Subject(NamedTuple):
    """Everything with a certain value in a certain field."""

    field: Literal["name", "agent_id", "source", "metadata"]
    key: str
    """Of the metadata."""
    value: str

    def is_in(self, metadata: Mapping[str, Any]) -> bool:
        """Return True if metadata has the value under the key; a number counts as its digits."""
        found = metadata.get(self.key)
        if isinstance(found, bool) or not isinstance(found, str | int | float):
            return False
        return str(found) == self.value


def parse_subject(text: str) -> Subject:
    """Return the subject that a text such as `name=Ada` or `metadata.customer=42` names.

    Raises:
        InvalidRequestError: it names no field that is known, or no value.
    """
    field, _, value = text.partition("=")
    known = ", ".join(SUBJECT_FIELDS)
    if not value:
        raise InvalidRequestError(f"must be FIELD=VALUE, FIELD one of {known}", field="subject")
    if field in ("name", "agent_id", "source"):
        return Subject(field, "", value)
    prefix, _, key = field.partition(".")
    if prefix == "metadata" and key:
        return Subject("metadata", key, value)
    raise InvalidRequestError(f"the field must be one of {known}", field="subject")


SubjectText = Annotated[
    str,
    Length(3, limits.SUBJECT_CHARACTERS_MAX),
    VISIBLE_ONLY,
    f"FIELD=VALUE, FIELD one of {', '.join(SUBJECT_FIELDS)}.",
]


class ErasureRequest(Request):
    """What to erase: exactly one of the fields."""

    conversation_id: ConversationId | None = None
    project: Annotated[Project | None, "All of a project: conversations, memories, episodes."] = (
        None
    )
    subject: SubjectText | None = None

    def check(self) -> None:
        if len(self._given) != 1:
            raise InvalidRequestError(
                "exactly one of conversation_id, project, subject is required"
            )
        if self.subject is not None:
            parse_subject(self.subject)

    @property
    def _given(self) -> list[tuple[ErasureScope, str]]:
        given: list[tuple[ErasureScope, str | None]] = [
            ("conversation", self.conversation_id),
            ("project", self.project),
            ("subject", self.subject),
        ]
        return [(scope, value) for scope, value in given if value is not None]

    @property
    def scope(self) -> ErasureScope:
        """Return what kind of thing is erased."""
        return self._given[0][0]

    @property
    def value(self) -> str:
        """Return what is erased."""
        return self._given[0][1]


class ErasureCounts(Value):
    """How much an erasure would remove, by kind."""

    removed: Mapping[str, int]


class BackupNote(Value, omit_defaults=True):
    """A backup that was taken before an erasure, and so still has what was erased."""

    name: str
    taken_at: datetime
    expires_at: datetime | None = None
    """When it is removed; None if nobody removes it."""


class ErasureReceipt(Value):
    """What an erasure has removed, and where it may still be found."""

    id: ErasureId
    scope: ErasureScope
    state: ErasureState
    actor: str
    requested_at: datetime
    finished_at: datetime | None
    removed: Mapping[str, int]
    """How many of each kind: conversations, messages, memories, documents, vectors, files …"""
    files: tuple[str, ...]
    """Those that were written anew, so that their free space has nothing of it either, and copies removed."""
    backups: tuple[BackupNote, ...] = ()
    """Those that still hold it, and until when, as far as this store knows of them."""
    still_held: tuple[str, ...] = ()
    """What this store cannot erase itself, in words."""


class ErasureQuery(Request):
    """A page of erasures."""

    limit: Annotated[int, Between(1, limits.ERASURE_PAGE_MAX)] = 20


class ErasuresListed(Value):
    """Erasures, the newest first."""

    erasures: tuple[ErasureReceipt, ...]
