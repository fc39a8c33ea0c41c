"""Textual edits of YAML: a mapping entry is inserted, replaced or removed, and all other text stays as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import yaml
from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode

from engram.clients.syntax import At, UnreadableError, enclosed, newline_of

_INDENT = "  "
_NULL = "tag:yaml.org,2002:null"


def parse(text: str) -> Any:
    """Return the value of a document; an empty one is an empty mapping.

    Raises:
        UnreadableError: it is not one document of YAML, or not a mapping.
    """
    try:
        value: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise UnreadableError(" ".join(str(exc).split())) from exc
    if value is not None and not isinstance(value, dict):
        raise UnreadableError("it is not a mapping")
    return cast("Any", value or {})


def put(text: str, at: At, value: Any) -> str:
    """Return the text with `value` at a place, in place of what is there or before all else.

    Raises:
        UnreadableError: it is not YAML, or is written in a way that is not edited here.
    """
    parse(text)
    root = _compose(text)
    newline = newline_of(text)
    if root is None:
        gap = newline if text and not text.endswith("\n") else ""
        return text + gap + _block(enclosed(at, value), "", newline)
    keys, entry = _path(root, at)
    if len(keys) == len(at):
        return _replaced(text, keys, entry, at[-1], value)
    key, rest = at[len(keys)], at[len(keys) + 1 :]
    return _inserted(text, keys, entry, {key: enclosed(rest, value)})


def restore(text: str, at: At, original: str) -> str:
    """Return the text with a place as it is in `original`, where it may be absent.

    Raises:
        UnreadableError: one of the two is not YAML.
    """
    parse(text)
    before, root = _compose(original), _compose(text)
    if root is None:
        return text
    old_keys, old = ([], None) if before is None else _path(before, at)
    keys, entry = _path(root, at)
    if len(keys) < len(at):
        return text
    if len(old_keys) == len(at) and old is not None:
        written = original[slice(*_span(original, old_keys[-1], old))]
        start, end = _span(text, keys[-1], entry)
        return text[:start] + written + text[end:]
    return _without(text, at, original, root)


def _without(text: str, at: At, original: str, root: Node) -> str:
    """Return the text without a place, and without the mappings above it that only lead there."""
    before = _compose(original)
    old_keys, old = ([], None) if before is None else _path(before, at)
    depth = next(
        depth
        for depth in range(len(old_keys) + 1, len(at) + 1)
        if _is_only_way(_path(root, at[:depth])[1], at[depth:])
    )
    keys, entry = _path(root, at[:depth])
    _, parent = _path(root, at[: depth - 1])
    left = _cut(text, parent, keys[-1], entry)
    if old is None:
        return left if left.removeprefix(original).strip() else original
    if old_keys and len(old_keys) == depth - 1 and _is_nothing(old) and len(parent.value) == 1:
        return _emptied(left, keys[-2], original, old_keys[-1], old)
    return left


def _cut(text: str, parent: Node, key: Node, entry: Node) -> str:
    is_flow = isinstance(parent, MappingNode) and parent.flow_style
    start, end = _flow_span(parent, key) if is_flow else _span(text, key, entry)
    return text[:start] + text[end:]


def _emptied(text: str, key: Node, original: str, old_key: Node, old: Node) -> str:
    """Return the text with what stood for an empty mapping in `original`."""
    start, end = old.start_mark.index, old.end_mark.index
    place = key.end_mark.index + start - old_key.end_mark.index
    rest = text[place:] if original[end:] or text[place:].strip() else ""
    return text[:place] + original[start:end] + rest


def _is_only_way(node: Node, rest: At) -> bool:
    """Return True if nothing but the entry that `rest` leads to is in a mapping."""
    for key in rest:
        if not isinstance(node, MappingNode) or len(node.value) != 1:
            return False
        [(name, node)] = node.value
        if name.value != key:
            return False
    return True


def _inserted(text: str, keys: list[Node], parent: Node, content: Mapping[str | int, Any]) -> str:
    newline = newline_of(text)
    if isinstance(parent, MappingNode) and parent.value and parent.flow_style:
        place = parent.start_mark.index + 1
        member = json.dumps(content, ensure_ascii=False)[1:-1]
        return text[:place] + member + ", " + text[place:]
    if isinstance(parent, MappingNode) and parent.value:
        first = parent.value[0][0]
        indent = _indent_of(text, first)
        place = _line_start(text, first.start_mark.index)
        if keys:
            place = _line_end(text, keys[-1].end_mark.index)
        return text[:place] + _block(content, indent, newline) + text[place:]
    if not keys or not _is_nothing(parent):
        raise UnreadableError("a value stands where a mapping must")
    start, end = parent.start_mark.index, parent.end_mark.index
    text = text[:start] + text[end:]
    indent = _indent_of(text, keys[-1]) + _INDENT
    place = _line_end(text, start)
    gap = "" if text[:place].endswith("\n") else newline
    return text[:place] + gap + _block(content, indent, newline) + text[place:]


def _replaced(text: str, keys: list[Node], entry: Node, key: str | int, value: Any) -> str:
    if isinstance(entry, CollectionNode) and entry.flow_style:
        start, end = entry.start_mark.index, entry.end_mark.index
        return text[:start] + json.dumps(value, ensure_ascii=False) + text[end:]
    indent = _indent_of(text, keys[-1])
    start, end = _span(text, keys[-1], entry)
    return text[:start] + _block({key: value}, indent, newline_of(text)) + text[end:]


def _path(root: Node, at: At) -> tuple[list[Node], Node]:
    """Return the keys that are there on the way to a place, and the last value."""
    keys, node = list[Node](), root
    for name in at:
        pairs = cast("list[tuple[Node, Node]]", node.value) if isinstance(node, MappingNode) else []
        found = [(key, value) for key, value in pairs if key.value == name]
        if not found:
            break
        if len(found) > 1 or found[0][1].start_mark.index < found[0][0].end_mark.index:
            raise UnreadableError(f"{name} is there twice, or an alias")
        keys.append(found[0][0])
        node = found[0][1]
    return keys, node


def _span(text: str, key: Node, value: Node) -> tuple[int, int]:
    """Return the lines of a block entry: from the start of its key's line to the end of its last."""
    _indent_of(text, key)
    return _line_start(text, key.start_mark.index), _line_end(text, _content_end(value))


def _flow_span(parent: Node, key: Node) -> tuple[int, int]:
    """Return the characters of an entry of a flow mapping, with a comma."""
    pairs = cast("list[tuple[Node, Node]]", parent.value)
    index = next(i for i, (each, _) in enumerate(pairs) if each is key)
    if index + 1 < len(pairs):
        return key.start_mark.index, pairs[index + 1][0].start_mark.index
    start = pairs[index - 1][1].end_mark.index if index else key.start_mark.index
    return start, pairs[index][1].end_mark.index


def _content_end(node: Node) -> int:
    """Return where a value ends; the mark of a block collection stands after comments that follow."""
    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = cast("list[Any]", node.value)[-1]
        value = cast("Node", last[1] if isinstance(node, MappingNode) else last)
        if value.start_mark.index < node.start_mark.index:
            raise UnreadableError("it ends with an alias")
        return _content_end(value)
    end: int = node.end_mark.index
    is_block_text = isinstance(node, ScalarNode) and node.style in {"|", ">"}
    return end - 1 if is_block_text else end


def _is_nothing(node: Node) -> bool:
    if isinstance(node, ScalarNode):
        return node.tag == _NULL
    return isinstance(node, MappingNode) and not node.value


def _indent_of(text: str, key: Node) -> str:
    """Return the blanks before a key.

    Raises:
        UnreadableError: something else stands before it on its line.
    """
    before = text[_line_start(text, key.start_mark.index) : key.start_mark.index]
    if before.strip(" "):
        raise UnreadableError(f"line {key.start_mark.line + 1} has more than one entry")
    return before


def _line_start(text: str, position: int) -> int:
    return text.rfind("\n", 0, position) + 1


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end + 1


def _block(content: Mapping[Any, Any], indent: str, newline: str) -> str:
    lines = list[str]()
    for key, value in content.items():
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{key}:{newline}")
            lines.append(_block(cast("dict[str, Any]", value), indent + _INDENT, newline))
        else:
            lines.append(f"{indent}{key}: {json.dumps(value, ensure_ascii=False)}{newline}")
    return "".join(lines)


def _compose(text: str) -> Node | None:
    """Return the root of a document, or None if it is empty."""
    try:
        root: Node | None = yaml.SafeLoader(text).get_single_node()
    except (yaml.YAMLError, ValueError, RecursionError) as exc:
        raise UnreadableError(" ".join(str(exc).split())) from exc
    # A document that begins with dashes and has nothing after them.
    is_empty = isinstance(root, ScalarNode) and root.start_mark.index == root.end_mark.index
    return None if is_empty else root
