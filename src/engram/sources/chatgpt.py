"""ChatGPT's export: each conversation is a tree of messages, and the current branch is what the user sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engram.sources.archives import read_conversations
from engram.sources.blocks import THOUGHTS
from engram.sources.texts import as_list, as_record, as_text, joined_texts, moment_of
from engram.sources.values import (
    Session,
    Source,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_ROLES: dict[object, SpokenRole] = {"user": "user", "assistant": "assistant", "tool": "tool"}
_THOUGHTS = frozenset({"thoughts", "reasoning_recap"})
_INSTRUCTIONS = frozenset({"user_editable_context", "model_editable_context"})
BRANCH = "branch"
"""The tag of a conversation with messages off the current path."""


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield the current path of every conversation, then what is off it, which is tagged."""
    for conversation in read_conversations(file.path, tally):
        name = as_text(conversation.get("conversation_id")) or as_text(conversation.get("id"))
        nodes = as_record(conversation.get("mapping"))
        if name is None or not nodes:
            tally.skip("no conversation")
            continue
        title = as_text(conversation.get("title"))
        path = _current_path(nodes, as_text(conversation.get("current_node")))
        main = Session(id=name, title=title)
        yield from _read_nodes(path, nodes, main, tally)
        rest = sorted((each for each in nodes if each not in set(path)), key=_time_in(nodes))
        branch = Session(id=f"{name}/{BRANCH}", title=title, tags=(BRANCH,), parent=name)
        yield from _read_nodes(rest, nodes, branch, tally)


def _current_path(nodes: dict[str, Any], current: str | None) -> list[str]:
    """Return the ids from the root to the current node; each is visited once, as links may be odd."""
    if current is None or current not in nodes:
        current = max(nodes, key=_time_in(nodes))
    path: dict[str, None] = {}
    while current is not None and current in nodes and current not in path:
        path[current] = None
        current = as_text(as_record(nodes[current]).get("parent"))
    return list(reversed(path))


def _time_in(nodes: dict[str, Any]) -> Any:
    def time_of(name: str) -> tuple[float, str]:
        created = as_record(as_record(nodes[name]).get("message")).get("create_time")
        return (created if isinstance(created, int | float) else 0.0, name)

    return time_of


def _read_nodes(
    names: list[str], nodes: dict[str, Any], session: Session, tally: Tally
) -> Iterator[SourceMessage]:
    for name in names:
        message = as_record(as_record(nodes[name]).get("message"))
        if not message:
            continue
        author, content = as_record(message.get("author")), as_record(message.get("content"))
        metadata = as_record(message.get("metadata"))
        role = _ROLES.get(as_text(author.get("role")))
        text = joined_texts(content.get("parts")) or as_text(content.get("text")) or ""
        if reason := _reason_to_skip(role, content, metadata):
            tally.skip(reason)
        elif not text:
            tally.skip("images and files" if as_list(content.get("parts")) else "empty")
        else:
            yield SourceMessage(
                session,
                as_text(message.get("id")) or name,
                role or "user",
                text,
                moment_of(message.get("create_time")),
                tool_name=as_text(author.get("name")) if role == "tool" else None,
                metadata=_model(metadata),
            )


def _reason_to_skip(
    role: str | None, content: dict[str, Any], metadata: dict[str, Any]
) -> str | None:
    if metadata.get("is_visually_hidden_from_conversation"):
        return "hidden"
    kind = as_text(content.get("content_type"))
    if kind in _THOUGHTS:
        return THOUGHTS
    if role is None or kind in _INSTRUCTIONS:
        return "instructions"
    return None


def _model(metadata: dict[str, Any]) -> dict[str, Any] | None:
    model = as_text(metadata.get("model_slug"))
    return None if model is None else {"model": model}


SOURCE = Source(
    name="chatgpt",
    title="ChatGPT export",
    patterns=("conversations*.json", "*.zip"),
    read=read,
)
