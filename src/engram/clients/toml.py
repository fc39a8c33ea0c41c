"""Textual edits of TOML: a table is appended, replaced or removed, and all other text stays as it is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from engram.clients.syntax import At, UnreadableError, newline_of, value_at

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|\#[^\n]*|[\[\]{}]|\n|[^\"'\#\[\]{}\n]+",
    re.DOTALL,
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with a header: where its first line begins and its last statement ends."""

    key: tuple[str, ...]
    start: int
    end: int

    def is_below(self, at: At) -> bool:
        return self.key[: len(at)] == tuple(at)


def parse(text: str) -> Any:
    """Return the value of a document.

    Raises:
        UnreadableError: it is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnreadableError(str(exc)) from exc


def put(text: str, at: At, value: Any) -> str:
    """Return the text with a table at a place, in place of what is there or at the end.

    Raises:
        UnreadableError: it is not TOML, or the table is not written under a header.
    """
    old = value_at(parse(text), at)
    if old is None:
        return text + _lead(text) + _rendered(at, value, newline_of(text))
    tables = [table for table in _tables(text) if table.is_below(at)]
    if not tables or tables[0].key != tuple(at):
        raise UnreadableError(f"{'.'.join(map(str, at))} is not a table with a header")
    # A table below it with an equal value stays as it is written.
    kept = {
        table.key[len(at)]
        for table in tables[1:]
        if value.get(table.key[len(at)]) == old.get(table.key[len(at)])
    }
    own = {key: each for key, each in value.items() if key not in kept}
    dropped = [tables[0], *(table for table in tables[1:] if table.key[len(at)] not in kept)]
    rest, start = _cut(text, _spans(text, dropped)), tables[0].start
    return rest[:start] + _rendered(at, own, newline_of(text)) + rest[start:]


def restore(text: str, at: At, original: str) -> str:
    """Return the text with a table as it is in `original`, where it may be absent.

    Raises:
        UnreadableError: one of the two is not TOML.
    """
    parse(text)
    tables = [table for table in _tables(text) if table.is_below(at)]
    if not tables:
        return text
    start = tables[0].start
    before = [table for table in _tables(original) if table.is_below(at)]
    rest = _cut(text, _spans(text, tables))
    if before:
        written = "".join(original[first:last] for first, last in _spans(original, before))
        return rest[:start] + written + rest[start:]
    lead = _lead(original)
    if not rest[start:]:
        return rest[:start].removesuffix(lead)
    # What follows now needs the line end that ended our table.
    blank = newline_of(original)
    return rest[:start].removesuffix(blank if lead else "") + rest[start:]


def _lead(text: str) -> str:
    """Return what separates a table from the text before it."""
    newline = newline_of(text)
    if not text.strip():
        return ""
    if not text.endswith("\n"):
        return newline * 2
    return "" if text.endswith(newline * 2) else newline


def _spans(text: str, tables: Iterable[_Table]) -> list[tuple[int, int]]:
    """Return where tables stand; those with only blanks between them stand together."""
    spans = list[tuple[int, int]]()
    for table in tables:
        if spans and not text[spans[-1][1] : table.start].strip():
            spans[-1] = (spans[-1][0], table.end)
        else:
            spans.append((table.start, table.end))
    return spans


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in reversed(list(spans)):
        text = text[:start] + text[end:]
    return text


def _tables(text: str) -> list[_Table]:
    """Return the tables that have headers, in their order."""
    found = list[_Table]()
    for start, end in _statements(text):
        statement = text[start:end].lstrip()
        if statement.startswith("["):
            found.append(_Table(_header_key(statement), start, end))
        elif found:
            found[-1] = _Table(found[-1].key, found[-1].start, end)
    return found


def _statements(text: str) -> Iterable[tuple[int, int]]:
    """Return where each statement begins, at the start of its line, and ends, after its line end."""
    depth, start, is_empty = 0, 0, True
    for token in _TOKEN.finditer(text):
        if token[0] == "\n" and depth == 0:
            if not is_empty:
                yield start, token.end()
            start, is_empty = token.end(), True
            continue
        depth += (token[0] in "[{") - (token[0] in "]}")
        is_empty = is_empty and (token[0].startswith("#") or not token[0].strip())
    if not is_empty:
        yield start, len(text)


def _header_key(statement: str) -> tuple[str, ...]:
    key, value = list[str](), cast("Any", tomllib.loads(statement))
    while value and isinstance(value, dict):
        [(name, value)] = cast("dict[str, Any]", value).items()
        key.append(name)
    return tuple(key)


def _rendered(at: At, value: Mapping[str, Any], newline: str) -> str:
    """Return a table with its header, and tables in it with theirs, as Codex itself writes them."""
    header = f"[{'.'.join(_key(str(key)) for key in at)}]"
    inner = {
        name: cast("dict[str, Any]", each) for name, each in value.items() if isinstance(each, dict)
    }
    own = [f"{_key(name)} = {_value(each)}" for name, each in value.items() if name not in inner]
    tables = [newline + _rendered((*at, name), each, newline) for name, each in inner.items()]
    return "".join([*(line + newline for line in (header, *own)), *tables])


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    match value:
        case dict():
            items = cast("dict[str, Any]", value).items()
            inner = ", ".join(f"{_key(name)} = {_value(each)}" for name, each in items)
            return f"{{ {inner} }}" if inner else "{}"
        case list():
            return f"[{', '.join(_value(each) for each in cast('list[Any]', value))}]"
        case str():
            return _string(value)
        case bool() | int() | float():
            return json.dumps(value)
        case _:
            raise UnreadableError(f"{value!r} cannot be written in TOML here")


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for one control character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
