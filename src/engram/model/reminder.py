"""Reminders: what an agent is told at the start of a session or with a prompt, without asking."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal, NamedTuple

from engram.model.ids import ConversationId, OrganizationId
from engram.model.value import Value

HOOK_TOOL = "hook"
"""The tool that a client calls where others run a command; it is not listed, since no model is to call it."""


class ReminderRequest(Value):
    """Describes the session that is to be reminded."""

    query: str | None = None
    """The prompt; None at the start of a session."""
    project: str | None = None
    bytes_max: int
    seen: frozenset[str] = frozenset()
    """Digests of the texts that the session has been shown."""
    without: ConversationId | None = None
    """The conversation of the session itself, whose messages it has in view."""


class ShownText(Value):
    """A stored text that is part of a reminder."""

    id: str
    """Of the memory or the message."""
    place: str
    """The id of the memory, or the message as `conv_…#12`."""
    digest: str
    """Identifies the text as it is shown."""


DeliveryEvent = Literal[
    "start", "prompt", "search", "fetch_context", "memory_recall", "memory_query"
]
"""What made an agent get something: an event of its session, or a tool that it called."""

REMINDERS: tuple[DeliveryEvent, ...] = ("start", "prompt")
"""Events after which an agent is told something without asking."""


class Given(NamedTuple):
    """What a tool has answered."""

    organization_id: OrganizationId
    at: datetime
    client: str
    key: str
    """Who called it, as the audit has it."""
    event: str
    query: str | None
    shown: tuple[str, ...]
    text: str


class Delivery(Value):
    """What an agent was given."""

    at: datetime
    client: str
    session: str
    """The client's id of the session, or of a tool's call the key."""
    event: str
    query: str | None
    """Digest of the prompt, or the beginning of what a tool was asked; None where nothing was."""
    shown: tuple[str, ...]
    """Ids of memories, and messages as `conv_…#12`; rows of older versions have ids of messages."""
    bytes: int
    tokens: int


class DeliveryDay(Value):
    """What agents were given on one day, in UTC."""

    day: date
    deliveries: int
    tokens: int


class Reminder(Value):
    """A fenced text for an agent; empty if there is nothing that it needs."""

    context: str = ""
    shown: tuple[ShownText, ...] = ()
    tokens: int = 0
