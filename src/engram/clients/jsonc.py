"""Textual edits of JSON, also with comments and trailing commas: all other text stays as it is.

`restore` is the inverse of `put` and of `append`: it gives back the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from engram.clients.syntax import At, UnreadableError, enclosed, newline_of
from engram.limits import CLIENT_FILE_DEPTH_MAX

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMENTS_ON_LINE = re.compile(r"(?:[ \t]*(?:(?P<line>//[^\r\n]*)|/\*.*?\*/))*+", re.DOTALL)
_LINE_START = re.compile(r"(?:^|[\r\n])([ \t]*)\Z")
_INDENT = "  "


@dataclass(slots=True)
class _Node:
    """A value and where it stands; objects and arrays have slots."""

    start: int
    end: int = 0
    value: Any = None
    slots: list[_Slot] = field(default_factory=list["_Slot"])


@dataclass(slots=True)
class _Slot:
    """A member of an object or an item of an array, with the comma that follows it."""

    key: str | int
    start: int
    node: _Node
    comma: int | None = None


def parse(text: str) -> Any:
    """Return the value of a document; an empty one is an empty object.

    Raises:
        UnreadableError: it is not JSON.
    """
    root = _tree(text)
    return {} if root is None else root.value


def put(text: str, at: At, value: Any) -> str:
    """Return the text with `value` at a place, in place of what is there or after all else.

    Raises:
        UnreadableError: it is not JSON, or something else stands where an object must.
    """
    root = _tree(text)
    if root is None:
        return _document(text, enclosed(at, value))
    container, depth = _deepest(root, at)
    if depth == len(at):
        return _replaced(text, root, container, value)
    if not isinstance(container.value, dict):
        raise UnreadableError(f"{'.'.join(map(str, at[:depth]))} is not an object")
    return _inserted(text, root, container, at[depth], enclosed(at[depth + 1 :], value))


def append(text: str, at: At, value: Any) -> str:
    """Return the text with `value` as the last item of the array at a place, which is made if needed.

    Raises:
        UnreadableError: it is not JSON, or something else stands where the array must.
    """
    root = _tree(text)
    if root is None:
        return put(text, at, [value])
    container, depth = _deepest(root, at)
    if depth < len(at):
        return put(text, at, [value])
    if not isinstance(container.value, list):
        raise UnreadableError(f"{'.'.join(map(str, at))} is not an array")
    return _inserted(text, root, container, None, value)


def restore(text: str, at: At, original: str) -> str:
    """Return the text with a place as it is in `original`, where it may be absent.

    Objects and arrays above it that `original` lacks are removed if nothing is left in them.

    Raises:
        UnreadableError: one of the two is not JSON.
    """
    before = _tree(original)
    if before is not None:
        old, depth = _deepest(before, at)
        if depth == len(at):
            root = _tree(text)
            node = None if root is None else _find(root, at)
            if node is None:
                return text
            return text[: node.start] + original[old.start : old.end] + text[node.end :]
    return _without(text, at, original, before)


def remove_item(text: str, at: At, original: str) -> str:
    """Return the text without an item of an array, and without arrays and objects that `original` lacks.

    Raises:
        UnreadableError: one of the two is not JSON.
    """
    return _without(text, at, original, _tree(original))


def _without(text: str, at: At, original: str, before: _Node | None) -> str:
    text = _removed(text, at)
    for depth in range(len(at) - 1, -1, -1):
        root = _tree(text)
        node = None if root is None else _find(root, at[:depth])
        old = None if before is None else _find(before, at[:depth])
        if node is None or node.slots:
            break
        if old is not None:
            # How an empty object was written cannot be told from what is left.
            if _inner(text, node) == _inner(original, old):
                text = text[: node.start] + original[old.start : old.end] + text[node.end :]
            break
        if _inner(text, node):
            break
        text = original if depth == 0 else _removed(text, at[:depth])
    return text


def _inner(text: str, node: _Node) -> str:
    return text[node.start + 1 : node.end - 1].strip()


def _removed(text: str, at: At) -> str:
    """Return the text without the member or item at a place."""
    root = _tree(text)
    container = None if root is None else _find(root, at[:-1])
    slots = [] if container is None else container.slots
    found = [index for index, slot in enumerate(slots) if slot.key == at[-1]]
    if not found:
        return text
    index = found[-1]
    slot = slots[index]
    start, end = _line_lead(text, slot.start), slot.node.end
    if slot.comma is not None:
        end = slot.comma + 1
        if start == slot.start and index == 0:
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    elif index:
        # The comma before the last one goes too; comments may stand after it.
        comma = cast("int", slots[index - 1].comma)
        return text[:comma] + text[comma + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _inserted(text: str, root: _Node, container: _Node, key: Any, value: Any) -> str:
    """Return the text with a last member or item in an object or array."""
    newline, unit = newline_of(text), _indent_unit(text, root)
    if not container.slots:
        return _filled(text, root, container, key, value)
    last = container.slots[-1]
    indent = _indent_before(text, last.start)
    after = last.node.end if last.comma is None else last.comma + 1
    comments = cast("re.Match[str]", _COMMENTS_ON_LINE.match(text, after))
    if indent is None and comments["line"] is not None:
        indent = _line_indent(text, container.start) + unit
    if indent is None:
        member = " " + _member(key, json.dumps(value, ensure_ascii=False))
    else:
        member = newline + indent + _member(key, _pretty(value, newline + indent, unit))
    if last.comma is None:
        return text[:after] + "," + comments[0] + member + text[comments.end() :]
    return text[:after] + comments[0] + member + "," + text[comments.end() :]


def _filled(text: str, root: _Node, container: _Node, key: Any, value: Any) -> str:
    """Return the text with the first member or item of an object or array."""
    newline, unit = newline_of(text), _indent_unit(text, root)
    inner = text[container.start + 1 : container.end - 1]
    if container is not root and _indent_before(text, root.slots[-1].start) is None:
        member = _member(key, json.dumps(value, ensure_ascii=False))
        return text[: container.start + 1] + member + text[container.start + 1 :]
    outer = _line_indent(text, container.start)
    member = newline + outer + unit
    member += _member(key, _pretty(value, newline + outer + unit, unit))
    # Comments stay before the member; the closing bracket gets a line of its own.
    kept = inner.rstrip(" \t\r\n")
    closing = inner[len(kept) :]
    if "\n" not in closing:
        closing = newline + outer
    return text[: container.start + 1] + kept + member + closing + text[container.end - 1 :]


def _replaced(text: str, root: _Node, node: _Node, value: Any) -> str:
    if "\n" not in text[node.start : node.end] and node.slots:
        rendered = json.dumps(value, ensure_ascii=False)
    else:
        line_start = newline_of(text) + _line_indent(text, node.start)
        rendered = _pretty(value, line_start, _indent_unit(text, root))
    return text[: node.start] + rendered + text[node.end :]


def _document(text: str, value: Any) -> str:
    """Return a document of one value, after the blanks of an empty file."""
    newline = newline_of(text)
    return text + _pretty(value, newline, _INDENT) + newline


def _member(key: Any, rendered: str) -> str:
    return rendered if key is None else f"{json.dumps(key, ensure_ascii=False)}: {rendered}"


def _pretty(value: Any, line_start: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line_start)


def _indent_unit(text: str, root: _Node) -> str:
    """Return the indentation of the document's first level, if it has one of its own."""
    indent = _indent_before(text, root.slots[0].start) if root.slots else None
    return indent or _INDENT


def _indent_before(text: str, position: int) -> str | None:
    """Return the blanks before a place if nothing else stands before it on its line."""
    found = _LINE_START.search(text, max(0, text.rfind("\n", 0, position)), position)
    return found[1] if found else None


def _line_indent(text: str, position: int) -> str:
    """Return the indentation of the line of a place."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find(root: _Node, at: At) -> _Node | None:
    node, depth = _deepest(root, at)
    return node if depth == len(at) else None


def _deepest(root: _Node, at: At) -> tuple[_Node, int]:
    """Return the last node on the way to a place, and how many of its steps lead there."""
    node = root
    for depth, key in enumerate(at):
        # Of members with one name the last one counts, as for every parser.
        found = [slot.node for slot in node.slots if slot.key == key]
        if not found:
            return node, depth
        node = found[-1]
    return node, len(at)


def _tree(text: str) -> _Node | None:
    """Return the document's tree, or None if it is empty.

    Raises:
        UnreadableError: it is not JSON.
    """
    return _Parser(text).document()


def _line_lead(text: str, place: int) -> int:
    """Return where the blanks before a place begin, with the line break before them."""
    start = len(text[:place].rstrip(" \t"))
    for line_break in ("\r\n", "\n", "\r"):
        if text.endswith(line_break, 0, start):
            return start - len(line_break)
    return start


class _Parser:
    """A recursive descent over a text that notes where each value stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def document(self) -> _Node | None:
        self._skip_space()
        if self.position == len(self.text):
            if self.text.strip():
                self._fail("only comments are there")
            return None
        root = self._value(0)
        self._skip_space()
        if self.position < len(self.text):
            self._fail("more follows after the value")
        if not isinstance(root.value, dict):
            raise UnreadableError("it is not an object")
        return root

    def _value(self, depth: int) -> _Node:
        if depth > CLIENT_FILE_DEPTH_MAX:
            self._fail(f"values are nested more than {CLIENT_FILE_DEPTH_MAX} deep")
        node = _Node(self.position)
        match self.text[self.position : self.position + 1]:
            case "{":
                self._slots(node, "}", depth)
                node.value = {slot.key: slot.node.value for slot in node.slots}
            case "[":
                self._slots(node, "]", depth)
                node.value = [slot.node.value for slot in node.slots]
            case '"':
                node.value = self._string()
            case _:
                node.value = self._loads(self._match(_SCALAR, "no value"))
        node.end = self.position
        return node

    def _slots(self, node: _Node, closing: str, depth: int) -> None:
        self.position += 1
        self._skip_space()
        while not self._take(closing):
            if node.slots and node.slots[-1].comma is None:
                self._fail("a comma is missing")
            node.slots.append(self._slot(closing, index=len(node.slots), depth=depth))
            self._skip_space()
            if self._take(","):
                node.slots[-1].comma = self.position - 1
                self._skip_space()

    def _slot(self, closing: str, *, index: int, depth: int) -> _Slot:
        start, key = self.position, index
        if closing == "}":
            key = self._string()
            self._skip_space()
            if not self._take(":"):
                self._fail("a colon is missing")
            self._skip_space()
        return _Slot(key, start, self._value(depth + 1))

    def _string(self) -> str:
        return self._loads(self._match(_STRING, "no string"))

    def _loads(self, token: str) -> Any:
        try:
            return json.loads(token)
        except ValueError as exc:
            raise UnreadableError(str(exc)) from exc

    def _match(self, pattern: re.Pattern[str], missing: str) -> str:
        found = pattern.match(self.text, self.position)
        if found is None:
            self._fail(missing)
            raise AssertionError
        self.position = found.end()
        return found[0]

    def _take(self, character: str) -> bool:
        if not self.text.startswith(character, self.position):
            return False
        self.position += 1
        return True

    def _skip_space(self) -> None:
        # The pattern matches nothing too, so there is always a match.
        self.position = cast("re.Match[str]", _SPACE.match(self.text, self.position)).end()

    def _fail(self, reason: str) -> None:
        line = self.text.count("\n", 0, self.position) + 1
        raise UnreadableError(f"line {line}: {reason}")


def index_of(items: Sequence[Any], value: Any, *, mark: str) -> int | None:
    """Return which item of an array is `value`, or has a text with `mark` in it."""
    equal = [index for index, item in enumerate(items) if item == value]
    marked = [index for index, item in enumerate(items) if mark and _has_mark(item, mark)]
    return next(iter([*equal, *marked]), None)


def _has_mark(value: Any, mark: str) -> bool:
    match value:
        case str():
            return mark in value
        case dict():
            return any(_has_mark(each, mark) for each in cast("dict[str, Any]", value).values())
        case list():
            return any(_has_mark(each, mark) for each in cast("list[Any]", value))
        case _:
            return False
