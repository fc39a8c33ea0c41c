"""Claude.ai's export: a list of conversations with their messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engram.sources.archives import read_conversations
from engram.sources.blocks import Block, ToolCalls, read_blocks, spoken
from engram.sources.texts import as_list, as_record, as_text, moment_of
from engram.sources.values import (
    ContentIds,
    Session,
    Source,
    SourceFile,
    SourceMessage,
    SpokenRole,
    Tally,
)

_ROLES: dict[object, SpokenRole] = {"human": "user", "user": "user", "assistant": "assistant"}


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield what was said in all conversations."""
    for conversation in read_conversations(file.path, tally):
        name = as_text(conversation.get("uuid")) or as_text(conversation.get("id"))
        if name is None:
            tally.skip("no conversation")
            continue
        project = as_text(as_record(conversation.get("project")).get("name"))
        session = Session(id=name, title=as_text(conversation.get("name")), project=project)
        ids, calls = ContentIds(), ToolCalls()
        messages = conversation.get("chat_messages") or conversation.get("messages")
        for message in map(as_record, as_list(messages)):
            yield from _read_message(message, session, ids, calls, tally)


def _read_message(
    message: dict[str, Any], session: Session, ids: ContentIds, calls: ToolCalls, tally: Tally
) -> Iterator[SourceMessage]:
    role = _ROLES.get(as_text(message.get("sender")) or as_text(message.get("role")))
    if role is None:
        tally.meet(f"sender {message.get('sender')}")
        return
    own_id = as_text(message.get("uuid")) or as_text(message.get("id")) or ""
    blocks = list(read_blocks(message.get("content"), role=role, calls=calls))
    # Older exports have the text alone, and some blocks are in the text but not in the list.
    if not any(block.text for block in blocks):
        blocks.append(Block(role, as_text(message.get("text")) or ""))
    template = SourceMessage(session, own_id, role, "", moment_of(message.get("created_at")))
    yield from spoken(blocks, template, ids=ids, tally=tally)
    for _ in (*as_list(message.get("attachments")), *as_list(message.get("files"))):
        tally.skip("images and files")


SOURCE = Source(
    name="claude-ai",
    title="Claude.ai export",
    patterns=("conversations*.json", "*.zip"),
    read=read,
)
