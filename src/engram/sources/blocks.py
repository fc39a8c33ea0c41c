"""Contents that are lists of blocks, as Anthropic's API has them: text, tool calls, tool results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from engram.sources.texts import as_list, as_record, as_text, joined_texts, to_json
from engram.sources.values import ContentIds, SourceMessage, SpokenRole, Tally

OWN_TOOLS = "Engram's own tools"
"""Why a call of one of our tools is left out: what was recalled is stored already."""

THOUGHTS = "thoughts"

_OWN_PREFIXES = ("mcp__engram__", "mcp_engram_", "mcp__plugin_engram_", "engram__", "engram-")


def is_own_tool(name: str | None) -> bool:
    """Return True if a client's name of a tool says that it is one of ours."""
    return name is not None and name.startswith(_OWN_PREFIXES)


def unless_own(message: SourceMessage, tally: Tally) -> Iterator[SourceMessage]:
    """Yield a tool's call or result unless the tool is one of ours."""
    if is_own_tool(message.tool_name):
        tally.skip(OWN_TOOLS)
    else:
        yield message


class ToolCalls:
    """The names of tools by the ids of their calls: a result names only its call."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def note(self, call_id: str | None, name: str | None) -> None:
        """Record which tool a call belongs to."""
        if call_id is not None and name is not None:
            self._names[call_id] = name

    def name_of(self, call_id: str | None) -> str | None:
        """Return the tool of a call, None if its call was not read."""
        return self._names.get(call_id or "")


class Block(NamedTuple):
    """One block of a content, or why it is left out."""

    role: SpokenRole
    text: str = ""
    tool_name: str | None = None
    tool_call_id: str | None = None
    reason: str | None = None


def read_blocks(content: object, *, role: SpokenRole, calls: ToolCalls) -> Iterator[Block]:
    """Yield the blocks of a content in their order, those that are left out included."""
    if isinstance(content, str):
        yield Block(role, content)
        return
    for value in as_list(content):
        yield _read_block(as_record(value), role=role, calls=calls)


def spoken(
    blocks: Iterable[Block], template: SourceMessage, *, ids: ContentIds, tally: Tally
) -> Iterator[SourceMessage]:
    """Yield the blocks of a message as messages, but for those that are left out, which are counted.

    `template` has what they share. Its id is that of the first one; if the source gave none, it is
    empty, and they are known by their contents.
    """
    for place, block in enumerate(blocks):
        if block.reason is not None:
            tally.skip(block.reason)
            continue
        if not template.id:
            own_id = ids.next(template.session, block.role, block.tool_name or "", block.text)
        else:
            own_id = template.id if place == 0 else f"{template.id}#{place}"
        yield template._replace(
            id=own_id,
            role=block.role,
            content=block.text,
            tool_name=block.tool_name,
            tool_call_id=block.tool_call_id,
        )


def _read_block(block: dict[str, object], *, role: SpokenRole, calls: ToolCalls) -> Block:
    match block.get("type"):
        case "text":
            return Block(role, as_text(block.get("text")) or "")
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            call_id, name = as_text(block.get("id")), as_text(block.get("name"))
            calls.note(call_id, name)
            reason = OWN_TOOLS if is_own_tool(name) else None
            return Block("assistant", to_json(block.get("input")), name, call_id, reason)
        case "tool_result" | "web_search_tool_result" | "mcp_tool_result":
            call_id = as_text(block.get("tool_use_id"))
            name = calls.name_of(call_id)
            reason = OWN_TOOLS if is_own_tool(name) else None
            return Block("tool", joined_texts(block.get("content")), name, call_id, reason)
        case "thinking" | "redacted_thinking" | "reasoning":
            return Block(role, reason=THOUGHTS)
        case "image" | "document" | "input_image" | "image_url":
            return Block(role, reason="images and files")
        case _:
            return Block(role, reason="unknown block")
