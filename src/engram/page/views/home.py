"""Home: how much is remembered, what came last, and what to do first where there is nothing."""

from __future__ import annotations

from engram.api.account import StatusView
from engram.api.notes import Entry
from engram.model.conversation import Conversation
from engram.model.value import Value
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

SHOWN = 6


class HomePage(Value):
    """What is stored, in short."""

    status: StatusView | None
    conversations: tuple[Conversation, ...]
    notes: tuple[Entry, ...]
    is_empty: bool


async def load(visit: Visit) -> HomePage:
    """Return the counts and the latest of what the key may read."""
    if not visit.allows("read"):
        return HomePage(status=None, conversations=(), notes=(), is_empty=False)
    status: StatusView = await visit.call("status")
    latest = await visit.call("list_conversations", limit=SHOWN)
    notes = await visit.call("list_entries", limit=SHOWN)
    return HomePage(
        status=status,
        conversations=latest.conversations,
        notes=notes.entries,
        is_empty=not (status.messages or status.memories or status.documents),
    )


VIEWS = (View(path="/", template="home.html", load=load, menu=Menu(label="Home")),)
ACTS: tuple[Act, ...] = ()
