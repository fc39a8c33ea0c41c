"""The tables of an organisation in the order in which their rows can be copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

ORGANIZATION = "organization_id"
"""The column with the organisation's number, which each database gives itself."""

CONTENT = "content"
"""The column with what may be large."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are copied."""

    name: str
    key: tuple[str, ...] = ()
    """What tells an organisation's rows apart; a table without it has one row for each."""
    is_numbered: bool = False
    """Whether the key counts the rows, none twice even if they are gone."""
    has_content: bool = False
    is_text: bool = False
    """Whether contents that are not compressed are texts."""
    renewed: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType[str, Any]({}))
    """Columns that speak of what is built anew, and what they say until it is built."""


_WORD_INDEX = MappingProxyType[str, Any](
    {
        # Older than any: whoever opens the organisation builds the index, or goes on with it.
        "analyser_version": 0,
        "window_words": 0,
        "word_revision": 0,
        "rebuild_id": None,
        "rebuild_version": None,
        "rebuild_upto": None,
        "rebuild_until": None,
        "rebuild_window_words": None,
    }
)

_NEAR_INDEX = MappingProxyType[str, Any]({"near_upto": None})
"""Of the vectors of big organisations, in PostgreSQL alone."""

TABLES = (
    Table("conversation", ("number",), is_numbered=True),
    Table("conversation_tag", ("conversation", "position")),
    Table("message", ("key",), has_content=True, is_text=True),
    Table("dictionary", ("id",), is_numbered=True, has_content=True),
    Table("idempotency", ("key",)),
    Table("audit_name", ("number",), is_numbered=True),
    Table("audit", ("at",)),
    Table("job", ("number",), is_numbered=True),
    Table("embedder", ("number",), is_numbered=True, renewed=_NEAR_INDEX),
    Table("instant_vector", ("seq",), has_content=True),
    Table("vector", ("seq",), has_content=True),
    Table("vector_removal", ("seq",)),
    Table("unembedded", ("number",), is_numbered=True),
    Table("vector_state"),
    Table("episode", ("id",)),
    Table("memory", ("number",), is_numbered=True),
    Table("memory_version", ("memory", "version"), has_content=True, is_text=True),
    Table("relation", ("source", "target", "relation_type")),
    Table("feedback", ("memory", "number")),
    Table("tombstone", ("id",)),
    Table("document", ("number",), is_numbered=True, has_content=True, is_text=True),
    Table("document_piece", ("key",), has_content=True),
    Table("counters"),
    Table("upkeep", renewed=_WORD_INDEX),
)
