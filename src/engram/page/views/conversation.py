"""The reader: one conversation in pieces, at the message that a link names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

from engram import limits
from engram.model.conversation import Conversation, Message, MessagePage
from engram.model.fields import parse_whole_number
from engram.model.value import Value, replace
from engram.page.view import Act, View
from engram.page.visit import Download, Visit

PIECE = 50
"""Messages of one piece: a few screens."""

SHOWN_CHARACTERS_MAX = 20_000
"""Of a longer message the beginning is shown, with a link that reads on."""


class ReaderMessage(Value):
    """A message, or the part of a long one that is shown."""

    message: Message
    starts_at: int = 0
    goes_on_at: int | None = None
    """The character to read on from."""


class Hits(Value):
    """The messages that a search has found here, to jump between."""

    sequences: tuple[int, ...]
    previous: int | None
    following: int | None
    position: int | None


class ReaderPage(Value):
    """A piece of a conversation."""

    conversation: Conversation
    messages: tuple[ReaderMessage, ...]
    total: int
    first: int
    last: int
    next_offset: int | None
    previous_offset: int | None
    focus: int | None
    """The message that the address names."""
    hits: Hits | None
    is_rendered: bool


async def load(visit: Visit) -> ReaderPage:
    """Return the piece of a conversation that the address names."""
    focus = _number(visit, "at")
    start = _number(visit, "from_character") or 0
    offset = _number(visit, "offset")
    found: MessagePage = await visit.call(
        "get_conversation",
        conversation_id=visit.parameters["conversation_id"],
        message_limit=1 if start else PIECE,
        message_offset=offset if focus is None else None,
        around_sequence=focus,
        from_character=start or None,
    )
    first = found.messages[0].sequence if found.messages else 0
    last = found.messages[-1].sequence if found.messages else 0
    return ReaderPage(
        conversation=found.conversation,
        messages=tuple(
            _cut(message, start if message is found.messages[0] else 0)
            for message in found.messages
        ),
        total=found.total,
        first=first,
        last=last,
        next_offset=last if last < found.total else None,
        previous_offset=max(0, first - 1 - PIECE) if first > 1 else None,
        focus=focus,
        hits=_hits(visit.given("hits"), focus),
        is_rendered=visit.given("as") == "rendered",
    )


def _cut(message: Message, start: int) -> ReaderMessage:
    content = message.content
    if len(content) <= SHOWN_CHARACTERS_MAX:
        return ReaderMessage(message=message, starts_at=start)
    shown = replace(message, content=content[:SHOWN_CHARACTERS_MAX])
    return ReaderMessage(message=shown, starts_at=start, goes_on_at=start + SHOWN_CHARACTERS_MAX)


def _hits(given: str | None, focus: int | None) -> Hits | None:
    if given is None:
        return None
    sequences = sorted({parse_whole_number("hits", each) for each in given.split(",")})
    at = focus or 0
    return Hits(
        sequences=tuple(sequences),
        previous=max((each for each in sequences if each < at), default=None),
        following=min((each for each in sequences if each > at), default=None),
        position=sequences.index(at) + 1 if at in sequences else None,
    )


def _number(visit: Visit, name: str) -> int | None:
    given = visit.given(name)
    return None if given is None else parse_whole_number(name, given)


def to_markdown(page: ReaderPage) -> str:
    """Return the shown messages as Markdown, each under a heading with its speaker."""
    parts = [_title_markdown(page.conversation), *(map(_message_markdown, page.messages))]
    if len(page.messages) < page.total:
        parts.append(f"*Messages {page.first:,} to {page.last:,} of {page.total:,}.*")
    return "\n\n".join(parts) + "\n"


def _title_markdown(conversation: Conversation) -> str:
    return f"# {' '.join((conversation.title or conversation.id).split())}"


def _message_markdown(each: ReaderMessage) -> str:
    message = each.message
    moment = message.occurred_at or message.created_at
    speaker = " ".join((message.name or message.tool_name or message.role).split())
    heading = f"## {message.sequence}. {speaker}, {moment:%Y-%m-%d %H:%M}"
    cut = f"\n\n*Goes on at character {each.goes_on_at:,}.*" if each.goes_on_at else ""
    return f"{heading}\n\n{message.content}{cut}"


async def export(visit: Visit) -> Download:
    """Return all messages as one Markdown file, which is read as it is sent."""
    first = await _read(visit, offset=0)
    name = quote(f"{first.conversation.title or first.conversation.id}.md", safe="")
    headers = {
        "content-type": "text/markdown; charset=utf-8",
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "x-content-type-options": "nosniff",
        "content-security-policy": "sandbox; default-src 'none'",
        "cache-control": "no-store",
    }
    return Download(headers, _written(visit, first))


async def _written(visit: Visit, page: MessagePage) -> AsyncIterator[bytes]:
    yield f"{_title_markdown(page.conversation)}\n".encode(errors="replace")
    while page.messages:
        for message in page.messages:
            text = _message_markdown(ReaderMessage(message=message))
            yield f"\n{text}\n".encode(errors="replace")
        page = await _read(visit, offset=page.messages[-1].sequence)


async def _read(visit: Visit, *, offset: int) -> MessagePage:
    return await visit.call(
        "get_conversation",
        conversation_id=visit.parameters["conversation_id"],
        message_limit=limits.MESSAGE_PAGE_MAX,
        message_offset=offset,
    )


VIEWS = (
    View(
        path="/conversations/{conversation_id}",
        template="conversation.html",
        load=load,
        scopes=("read",),
        text=to_markdown,
    ),
    View(path="/conversations/{conversation_id}/export", load=export, scopes=("read",)),
)
ACTS: tuple[Act, ...] = ()
