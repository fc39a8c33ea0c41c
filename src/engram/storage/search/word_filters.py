"""Turn the filters of a search into conditions on conversations and messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.clock import to_microseconds
from engram.errors import NotFoundError
from engram.model.search import SearchFilters
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.search.record_filters import EVERY_RECORD, RecordFilter

_SQL = load_queries("search/words.sql")
_OF_CONVERSATIONS = {"agent_id": "has_agent", "project": "has_project", "tags": "has_tags"}
_OF_MESSAGES = {"role": "has_role", "since": "is_said_since", "before": "is_said_before"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What a message must meet, as SQL for each table that is asked, and the values in it."""

    conversation: str
    message: str
    given: Mapping[str, Any]
    """Values in the SQL, but for those of `records`."""
    is_of_conversations: bool
    """Whether `conversation` says everything but what `records` says."""
    records: RecordFilter
    """Conditions on the number of the conversation or record."""

    @property
    def values(self) -> Mapping[str, Any]:
        """Return the values in the SQL."""
        return {**self.given, **self.records.values}

    @property
    def is_of_records(self) -> bool:
        """Return True if `records` says everything."""
        return not self.conversation.strip() and self.is_of_conversations


def conditions_of(
    connection: Connection,
    filters: SearchFilters,
    *,
    organization_id: int,
    records: RecordFilter = EVERY_RECORD,
) -> Conditions:
    """Return the conditions that express `filters` and say which records may be found.

    Raises:
        NotFoundError: they name a conversation that is not here.
    """
    values = _values(filters)
    of_conversation = _joined(_OF_CONVERSATIONS, values)
    of_message = ""
    if of_conversation:
        of_message = _SQL["is_in_conversations"].replace("/*conditions*/", of_conversation)
    if filters.conversation_id is not None:
        values["number"] = _number_of(connection, filters.conversation_id, organization_id)
        of_message = f"{_SQL['is_in_conversation']} {of_message}"
        of_conversation = f"{_SQL['is_conversation']} {of_conversation}"
    such = _joined(_OF_MESSAGES, values)
    return Conditions(
        conversation=of_conversation,
        is_of_conversations=not such,
        records=records,
        message=f"{records.sql_of_message} {of_message} {such}",
        given={**values, "organization_id": organization_id},
    )


def _values(filters: SearchFilters) -> dict[str, Any]:
    values: dict[str, Any] = {
        "agent_id": filters.agent_id,
        "project": filters.project,
        "tags": json.dumps(filters.tags) if filters.tags else None,
        "role": filters.role,
        "since": filters.since and to_microseconds(filters.since),
        "before": filters.before and to_microseconds(filters.before),
    }
    return {name: value for name, value in values.items() if value is not None}


def _joined(conditions: Mapping[str, str], values: Mapping[str, Any]) -> str:
    return " ".join(_SQL[name] for field, name in conditions.items() if field in values)


def _number_of(connection: Connection, conversation_id: str, organization_id: int) -> int:
    asked = {"organization_id": organization_id, "id": conversation_id}
    row = connection.execute(_SQL["find_conversation"], asked).fetchone()
    if row is None:
        raise NotFoundError("conversation", conversation_id)
    return row[0]
