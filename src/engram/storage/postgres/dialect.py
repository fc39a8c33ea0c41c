"""Translate the statements of the storage rooms from SQLite's dialect to PostgreSQL's.

What differs in one place is said there, twice: SQLite reads
`/*sqlite:*/ min(a, b) /*postgres: least(a, b) */` without its comments, and here the second stands
for the first. What always differs is a rule below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

_STATEMENTS_KEPT = 4_096
"""More than there are; conditions are put into some of them."""

_COMMENT = re.compile(r"--[^\n]*+|/\*(?!sqlite:\*/|postgres:).*?(?:\*/|\Z)", re.DOTALL)
_MARK = re.compile(r"/\*sqlite:\*/.*?(?:/\*postgres:(.*?)\*/|\Z)", re.DOTALL)
_LIST = re.compile(r"\b(NOT )?IN\s*\(SELECT value FROM json_each\(:(\w+)\)\)")
_LENGTH = re.compile(r"\bjson_array_length\(:(\w+)\)")
_VALUE = re.compile(r"(?<![:\w]):([a-z_]\w*)")

_RULES = (
    # Hints for SQLite's planner.
    (re.compile(r"\bNOT INDEXED\b"), ""),
    (re.compile(r"(?<=\s)\+(?=[a-z])"), ""),
    (
        re.compile(r"\blength\(CAST\(((?:(?!\bAS\b).){1,200}?) AS BLOB\)\)", re.DOTALL),
        r"octet_length(\1)",
    ),
    # Contents are text or bytes there, and bytes here.
    (re.compile(r"\bCAST\(((?:(?!\bAS\b).){1,200}?) AS BLOB\)", re.DOTALL), r"\1"),
    (re.compile(r"\bgroup_concat\((\w+)\)"), r"string_agg(\1::text, ',')"),
    (re.compile(r"\bjson_group_array\((\w+)\)"), r"coalesce(jsonb_agg(\1), '[]')::text"),
    # The driver reads it as the beginning of a value.
    (re.compile(r"%"), "%%"),
)


@dataclass(frozen=True, slots=True)
class Translated:
    """A statement for psycopg, and which of its values are given in another form."""

    text: bytes
    lists: frozenset[str]
    """Values that are JSON lists, and become arrays."""
    has_content: bool

    def bind(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the values as PostgreSQL wants them."""
        if not self.lists and not self.has_content:
            return values
        changed = {name: orjson.loads(values[name]) for name in self.lists}
        if self.has_content and isinstance(content := values["content"], str):
            changed["content"] = content.encode()
        return {**values, **changed}


@lru_cache(maxsize=_STATEMENTS_KEPT)
def translate(statement: str) -> Translated:
    """Return a statement as psycopg takes it."""
    text = _COMMENT.sub("", _MARK.sub(r"\1", _COMMENT.sub("", statement)))
    lists = frozenset(name for _, name in _LIST.findall(text))
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _LENGTH.sub(r"cardinality(:\1)", _LIST.sub(_array_condition, text))
    text = _VALUE.sub(r"%(\1)s", text)
    return Translated(text.strip().encode(), lists, has_content="%(content)s" in text)


def _array_condition(match: re.Match[str]) -> str:
    return f"{'<> ALL' if match[1] else '= ANY'}(:{match[2]})"
