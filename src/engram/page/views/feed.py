"""The feed: what was stored most recently, live, filtered by project, client, kind and origin."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Literal

from engram.api.memory_views import MemoryView
from engram.api.notes import Entry
from engram.model.conversation import Conversation, ConversationPage, MessagePage
from engram.model.fields import check_choice
from engram.model.value import Value, replace
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

SHOWN = 30
SCANNED_MAX = 500
"""Conversations and memories each that a filter is applied to: the feed is about the last days."""

BATCH = 50
TEXT_CHARACTERS_MAX = 400
BY_HAND = "manual"
"""The source of memories that nobody has captured."""

Kind = Literal["conversation", "memory"]
Way = Literal["hand", "captured"]
KINDS: tuple[Kind, ...] = ("conversation", "memory")
WAYS: tuple[Way, ...] = ("hand", "captured")


class FeedItem(Value):
    """Something that was stored: the end of a conversation, or a memory."""

    kind: Kind
    id: str
    title: str | None
    text: str
    role: str | None
    project: str
    client: str | None
    way: Way
    at: datetime
    messages: int | None
    link: str


class FeedPage(Value):
    """What was stored last, newest first."""

    items: tuple[FeedItem, ...]
    filters: dict[str, str]
    is_cut: bool
    """True if older entries may match, which were not looked at."""


async def load(visit: Visit) -> FeedPage:
    """Return the newest conversations and memories that the filters of the address let through."""
    filters = {
        name: value
        for name in ("project", "client", "kind", "way")
        if (value := visit.given(name)) is not None
    }
    if "kind" in filters:
        check_choice("kind", filters["kind"], KINDS)
    if "way" in filters:
        check_choice("way", filters["way"], WAYS)
    found, is_cut = list[FeedItem](), False
    if filters.get("kind", "conversation") == "conversation":
        talks, is_cut = await _newest(_conversations(visit, filters))
        found += [await _with_last_message(visit, each) for each in talks]
    if filters.get("kind", "memory") == "memory":
        memories, are_cut = await _newest(_memories(visit, filters))
        found += memories
        is_cut = is_cut or are_cut
    newest = sorted(found, key=lambda item: (item.at, item.id), reverse=True)[:SHOWN]
    return FeedPage(items=tuple(newest), filters=filters, is_cut=is_cut)


async def pulse(visit: Visit) -> object:
    """Return what changes when something is stored: much less than the feed itself."""
    status = await visit.call("status")
    latest: ConversationPage = await visit.call("list_conversations", limit=1)
    memories = await visit.call("list_entries", limit=1)
    return (
        status.messages,
        status.memories,
        [each.updated_at for each in latest.conversations],
        [each.id for each in memories.entries],
    )


async def _newest(source: AsyncGenerator[FeedItem | None]) -> tuple[list[FeedItem], bool]:
    """Return the first entries that match, and whether others were left unread; None does not match."""
    found, scanned = list[FeedItem](), 0
    async for item in source:
        if len(found) == SHOWN:
            return found, False
        scanned += 1
        if item is not None:
            found.append(item)
        if scanned == SCANNED_MAX:
            return found, True
    return found, False


async def _conversations(visit: Visit, filters: dict[str, str]) -> AsyncGenerator[FeedItem | None]:
    offset: int | None = 0
    while offset is not None:
        page: ConversationPage = await visit.call(
            "list_conversations",
            limit=BATCH,
            offset=offset,
            project=filters.get("project"),
            agent_id=filters.get("client"),
        )
        for each in page.conversations:
            item = _of_conversation(each)
            yield item if filters.get("way", item.way) == item.way else None
        offset = page.next_offset


def _of_conversation(each: Conversation) -> FeedItem:
    source = each.metadata.get("source")
    is_captured = "session" in each.metadata and isinstance(source, str)
    last = each.message_count
    return FeedItem(
        kind="conversation",
        id=each.id,
        title=each.title or "Untitled conversation",
        text="",
        role=None,
        project=each.project,
        client=each.agent_id or (source if is_captured else None),
        way="captured" if is_captured else "hand",
        at=each.updated_at,
        messages=last,
        link=f"/conversations/{each.id}?at={last}#m{last}" if last else f"/conversations/{each.id}",
    )


async def _with_last_message(visit: Visit, item: FeedItem) -> FeedItem:
    if not item.messages:
        return item
    page: MessagePage = await visit.call(
        "get_conversation",
        conversation_id=item.id,
        message_limit=1,
        message_offset=item.messages - 1,
    )
    if not page.messages:
        return item
    message = page.messages[0]
    return replace(item, text=message.content[:TEXT_CHARACTERS_MAX], role=message.role)


async def _memories(visit: Visit, filters: dict[str, str]) -> AsyncGenerator[FeedItem | None]:
    offset: int | None = 0
    while offset is not None:
        paged = {"limit": BATCH, "offset": offset}
        if project := filters.get("project"):
            listed = await visit.call("memory_list", project=project, **paged)
            entries: tuple[MemoryView | Entry, ...] = listed.memories
        else:
            listed = await visit.call("list_entries", source=filters.get("client"), **paged)
            entries = listed.entries
        for each in entries:
            item = _of_memory(each)
            is_wanted = filters.get("way", item.way) == item.way
            yield item if is_wanted and filters.get("client", each.source) == each.source else None
        offset = listed.next_offset


def _of_memory(each: MemoryView | Entry) -> FeedItem:
    return FeedItem(
        kind="memory",
        id=each.id,
        title=None,
        text=each.content[:TEXT_CHARACTERS_MAX],
        role=each.category,
        project=each.project,
        client=each.source,
        way="hand" if each.source == BY_HAND else "captured",
        at=each.created_at,
        messages=None,
        link=f"/memories/{each.id}",
    )


VIEWS = (
    View(
        path="/feed",
        template="feed.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Feed"),
        live="feed_items.html",
        pulse=pulse,
    ),
)
ACTS: tuple[Act, ...] = ()
