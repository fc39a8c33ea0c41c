"""Read what a new session should know: candidates of each group, each from an index and bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engram import limits
from engram.model.ids import ConversationKey, MessageKey
from engram.model.memory import IMPORTANCE_DEFAULT, Category
from engram.model.recall import OverviewReason
from engram.model.row_keys import message_key
from engram.model.search import Kind
from engram.model.value import Value
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

OPEN_TAGS = ("todo", "open", "wip", "in-progress", "blocked", "follow-up")
"""Tags that mark open work, on memories and conversations."""

LAST_MESSAGES = 20
"""Messages at the end of a conversation among which the last one of a user or assistant is sought."""

_SQL = load_queries("search/overview.sql")
_MEMORIES = load_queries("memories/memories.sql")


class OverviewQuery(Value):
    """Filters of an overview."""

    project: str | None = None
    category: Category | None = None
    kinds: Sequence[Kind] = ("note",)
    now: int
    """Microseconds since 1970; memories that are not valid then are left out."""


class OverviewCandidate(NamedTuple):
    """A memory, or the last message of a conversation, that a new session may need."""

    reason: OverviewReason
    conversation: ConversationKey
    """The conversation, or the record of the memory."""
    key: MessageKey
    importance: int
    at: int
    """When a memory became valid or was stored, or when a conversation last changed."""
    project: str


class _Group(NamedTuple):
    """Memories that are read from one index."""

    reason: OverviewReason
    rows: str
    """Name of the condition, or of the statement for a tag."""
    value: str | int | None = None
    condition: str = ""


_GROUPS = (
    _Group("critical", "has_importance", 0),
    _Group("important", "has_importance", 1),
    *(_Group("open", "tagged_memories", tag) for tag in OPEN_TAGS),
    _Group("open", "has_type", "error", _SQL["is_unresolved"]),
    _Group("decision", "has_type", "decision"),
    _Group("decision", "has_type", "architecture"),
    _Group("decision", "has_category", "project"),
    _Group("preference", "has_type", "preference"),
    _Group("preference", "has_category", "user_pref"),
)


def read_overview(tx: Transaction, query: OverviewQuery) -> list[OverviewCandidate]:
    """Return the candidates of every group, which may name a memory more than once."""
    found: list[OverviewCandidate] = []
    if {"note", "document"} & {*query.kinds}:
        found += [each for group in groups_of(query) for each in _memories(tx, query, group)]
    if "conversation" in query.kinds and query.category is None:
        found += _conversations(tx, query)
    return found


def memory_statement(query: OverviewQuery, group: _Group) -> str:
    """Return the statement that reads the newest memories of a group, assembled from fixed pieces."""
    conditions = [_SQL["is_current"], group.condition]
    if query.project is not None:
        conditions.append(_SQL["is_in_project"])
    if query.category is not None:
        conditions.append(_SQL["is_in_category"])
    if "note" not in query.kinds:
        conditions.append(_SQL["is_document"])
    if group.rows == "tagged_memories":
        statement = _SQL[group.rows]
    else:
        by_number = _MEMORIES["by_number"] if group.rows == "all" else ""
        statement = _SQL["newest_memories"].replace("/*by_number*/", by_number)
        statement = statement.replace("/*group*/", _SQL.get(group.rows, ""))
    return statement.replace("/*conditions*/", " ".join(conditions))


def groups_of(query: OverviewQuery) -> tuple[_Group, ...]:
    """Return the groups to read; the newest of all, or of a project or category, come last."""
    latest = _Group("latest", "all")
    if query.project is not None:
        latest = _Group("latest", "is_in_project")
    if query.category not in (None, "general"):
        latest = _Group("latest", "has_category", query.category)
    return (*_GROUPS, latest)


def _memories(tx: Transaction, query: OverviewQuery, group: _Group) -> Iterator[OverviewCandidate]:
    rows = tx.execute(memory_statement(query, group), **_values(query, group))
    for record, importance, at, project in rows.fetchall():
        key = message_key(record, 1)
        yield OverviewCandidate(group.reason, record, key, importance, at, project)


def _values(query: OverviewQuery, group: _Group) -> dict[str, Any]:
    limit = limits.OVERVIEW_LATEST if group.reason == "latest" else limits.OVERVIEW_ROWS
    return {
        "value": group.value,
        "project": query.project,
        "category": query.category,
        "now": query.now,
        "limit": limit,
        "scanned": limits.OVERVIEW_SCANNED,
    }


def _conversations(tx: Transaction, query: OverviewQuery) -> Iterator[OverviewCandidate]:
    """Yield the last messages of open conversations, and of those that changed last."""
    condition = "" if query.project is None else _SQL["is_in_project"]
    tagged = _SQL["tagged_conversations"].replace("/*conditions*/", condition)
    latest = _SQL["latest_conversations"].replace("/*conditions*/", condition)
    values = {"project": query.project, "limit": limits.OVERVIEW_ROWS}
    for tag in OPEN_TAGS:
        rows = tx.execute(tagged, value=tag, scanned=limits.OVERVIEW_SCANNED, **values)
        yield from _last_messages(tx, "open", rows.fetchall())
    yield from _last_messages(tx, "latest", tx.execute(latest, **values).fetchall())


def _last_messages(
    tx: Transaction, reason: OverviewReason, rows: Sequence[tuple[int, int, int, str]]
) -> Iterator[OverviewCandidate]:
    for number, length, at, project in rows:
        first = message_key(number, max(1, length - LAST_MESSAGES + 1))
        last = message_key(number, length)
        said = tx.execute(_SQL["last_said"], first=first, last=last).fetchone()
        if said is not None:
            yield OverviewCandidate(
                reason, ConversationKey(number), said[0], IMPORTANCE_DEFAULT, at, project
            )
