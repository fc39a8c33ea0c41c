"""Edits of a client's file: what Engram writes there, and how it is taken back.

Every edit is proved before anything is written: the new text is parsed, and must hold the entry and
otherwise exactly what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from engram.clients import jsonc, toml, yaml
from engram.clients.syntax import At, UnreadableError, value_at
from engram.model.value import Value

Syntax = Literal["json", "toml", "yaml", "text"]
"""How a file is written; JSON also with comments, and text is a file that is ours as a whole."""


class SetKey(Value, tag="set_key"):
    """An entry under a key of its own, such as `mcpServers.engram`."""

    at: tuple[str, ...]
    value: dict[str, Any]


class AddItem(Value, tag="add_item"):
    """An item of an array that others share, such as a hook of an event; in JSON only.

    If it was changed since, it is known by `mark`, a text that some string in it contains.
    """

    at: tuple[str, ...]
    value: Any
    mark: str = ""


class WholeFile(Value, tag="whole_file"):
    """A file that is ours from the first byte to the last."""

    content: str


Edit = SetKey | AddItem | WholeFile


class Editor(Value):
    """The functions that edit one syntax."""

    parse: Callable[[str], Any]
    put: Callable[[str, At, Any], str]
    restore: Callable[[str, At, str], str]


_EDITORS: Mapping[str, Editor] = {
    "json": Editor(parse=jsonc.parse, put=jsonc.put, restore=jsonc.restore),
    "toml": Editor(parse=toml.parse, put=toml.put, restore=toml.restore),
    "yaml": Editor(parse=yaml.parse, put=yaml.put, restore=yaml.restore),
}


def apply(text: str, edit: Edit, *, syntax: Syntax, previous: Edit | None = None) -> str:
    """Return the text with an edit made.

    `previous` is the edit that was made at this place before: what it did not write stays.

    Raises:
        UnreadableError: the text cannot be edited safely.
    """
    match edit:
        case SetKey():
            return _set_key(text, edit, _EDITORS[syntax], previous)
        case AddItem():
            return _add_item(text, edit, previous)
        case WholeFile():
            known = {"", edit.content, previous.content if isinstance(previous, WholeFile) else ""}
            if text not in known:
                raise UnreadableError("another file is there")
            return edit.content


def undo(text: str, edit: Edit, *, syntax: Syntax, original: str) -> str:
    """Return the text without what an edit made, as it was in `original` at this place.

    Raises:
        UnreadableError: the text cannot be edited safely.
    """
    match edit:
        case SetKey():
            editor = _EDITORS[syntax]
            result = editor.restore(text, edit.at, original)
            left, before = editor.parse(result), editor.parse(original)
            _prove(_without(left, edit.at), _without(editor.parse(text), edit.at))
            _prove(value_at(left, edit.at), value_at(before, edit.at))
            return result
        case AddItem():
            return _drop_item(text, edit, original)
        case WholeFile():
            if text not in {"", edit.content}:
                raise UnreadableError("it was changed")
            return original


def is_made(text: str, edit: Edit, *, syntax: Syntax) -> bool | None:
    """Return True if the edit is in the text, False if it was changed there, None if it is absent.

    Raises:
        UnreadableError: the text cannot be parsed.
    """
    match edit:
        case SetKey():
            value = value_at(_EDITORS[syntax].parse(text), edit.at)
            if not isinstance(value, dict):
                return None if value is None else False
            found = cast("dict[str, Any]", value)
            return all(found.get(key) == each for key, each in edit.value.items())
        case AddItem():
            items = _items(jsonc.parse(text), edit.at)
            index = jsonc.index_of(items, edit.value, mark=edit.mark)
            return None if index is None else items[index] == edit.value
        case WholeFile():
            return text == edit.content if text else None


def current_value(text: str, edit: SetKey, *, syntax: Syntax) -> Any:
    """Return what the text has at the place of an edit, or None."""
    return value_at(_EDITORS[syntax].parse(text), edit.at)


def snippet(edit: Edit, *, syntax: Syntax) -> str:
    """Return an edit as a file that has nothing else, to be pasted by hand."""
    return apply("", edit, syntax=syntax)


def _set_key(text: str, edit: SetKey, editor: Editor, previous: Edit | None) -> str:
    document = editor.parse(text)
    value, old = edit.value, value_at(document, edit.at)
    if isinstance(previous, SetKey) and isinstance(old, dict):
        found = cast("dict[str, Any]", old)
        others = {key: each for key, each in found.items() if key not in previous.value}
        value = {**value, **{key: each for key, each in others.items() if key not in value}}
    if old == value:
        return text
    result = editor.put(text, edit.at, value)
    left = editor.parse(result)
    _prove(value_at(left, edit.at), value)
    _prove(_without(left, edit.at), _without(document, edit.at))
    return result


def _add_item(text: str, edit: AddItem, previous: Edit | None) -> str:
    items = _items(jsonc.parse(text), edit.at)
    old = previous.value if isinstance(previous, AddItem) else edit.value
    index = jsonc.index_of(items, old, mark=edit.mark)
    if index is None:
        expected = [*items, edit.value]
        result = jsonc.append(text, edit.at, edit.value)
    else:
        if items[index] == edit.value:
            return text
        expected = [*items[:index], edit.value, *items[index + 1 :]]
        result = jsonc.put(text, (*edit.at, index), edit.value)
    left = jsonc.parse(result)
    _prove(value_at(left, edit.at), expected)
    _prove(_without(left, edit.at), _without(jsonc.parse(text), edit.at))
    return result


def _drop_item(text: str, edit: AddItem, original: str) -> str:
    document = jsonc.parse(text)
    items = _items(document, edit.at)
    index = jsonc.index_of(items, edit.value, mark=edit.mark)
    if index is None:
        return text
    result = jsonc.remove_item(text, (*edit.at, index), original)
    left = jsonc.parse(result)
    _prove(_items(left, edit.at), [*items[:index], *items[index + 1 :]])
    _prove(_without(left, edit.at), _without(document, edit.at))
    return result


def _items(document: Any, at: At) -> list[Any]:
    items = value_at(document, at)
    if items is not None and not isinstance(items, list):
        raise UnreadableError(f"{'.'.join(map(str, at))} is not an array")
    return cast("list[Any]", items or [])


def _without(document: Any, at: At) -> Any:
    """Return a document without a place, and without objects that then are empty."""
    if not isinstance(document, dict):
        return document
    entries = dict(cast("dict[Any, Any]", document))
    if len(at) == 1:
        entries.pop(at[0], None)
    elif at[0] in entries:
        inner = _without(entries.pop(at[0]), at[1:])
        if inner not in ({}, None):
            entries[at[0]] = inner
    return entries


def _prove(found: Any, expected: Any) -> None:
    # Numbers that are not a number differ from themselves.
    if found != expected and repr(found) != repr(expected):
        raise UnreadableError("the edit would change more than the entry")
