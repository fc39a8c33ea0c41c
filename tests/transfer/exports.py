"""An organisation with all kinds of data, and short ways to export and import it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from engram.clock import format_time
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.document import Document, DocumentLimits
from engram.model.export import ExportRequest, ImportReceipt
from engram.model.ids import ConversationId, MemoryId
from engram.model.memory import Feedback, MemoryDraft
from engram.model.vectors import WORDS_ALONE
from engram.storage.organization import OrganizationStore
from engram.transfer.export_format import FORMAT, VERSION, Header, Origin, Tally, encode_line
from engram.transfer.exporting import export_bytes
from engram.transfer.import_target import Target
from engram.transfer.importing import import_bytes
from tests.fakes import SOME_DAY, FakeClock
from tests.storage import document_drafts, memory_drafts
from tests.storage.captures import session
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin

HOSTILE = (
    "NUL \0 and bell \a",
    "lone \r and \r\n and \n",
    "\u202ebidi\u202c \u2066isolated\u2069 \u200e\u200f",
    "line \u2028 and paragraph \u2029, BOM \ufeff, noncharacter \uffff \U0010ffff",
    '{"type":"manifest"}\n{"type":"check","sha256":""}\n',
    "\x1b[31mred\x1b[0m \x7f\x80\x9f",
    "",
    "e\u0301 \u00e9 \U0001f469\u200d\U0001f4bb \u0000\u0000",
)
"""Texts that must come back byte for byte."""

BINARY = bytes(range(256)) * 700
"""A body that is no text."""

LIMITS = DocumentLimits()


async def fill(organization: OrganizationStore, clock: FakeClock) -> dict[str, str]:
    """Store something of every kind; return the ids of some of it."""
    await append(organization, "into the default conversation")
    named: dict[str, str] = {"talk": await _talk(organization, clock)}
    await begin(organization, title="nothing was said")
    await _capture(organization, "one", "two")
    await _capture(organization, "one", name="gone")
    gone = (await organization.find_uncaptured(session("one", name="gone"))).conversation_id
    await organization.delete_conversation(gone, actor=ACTOR)
    named |= await _memories(organization, clock)
    named |= await _documents(organization, clock)
    return named


async def _talk(organization: OrganizationStore, clock: FakeClock) -> str:
    draft = ConversationDraft(
        title="Hostile \r \u202e title",
        agent_id="agent-7",
        project="harbour",
        tags=("z", "a"),
        metadata={"big": 10**30, "nested": {"é": [None, True, 0.1, "\0"]}},
    )
    talk = await organization.create_conversation(draft, actor=ACTOR)
    for number, text in enumerate((*HOSTILE, "x" * 300_000)):
        clock.advance(timedelta(seconds=1, microseconds=number))
        message = MessageDraft(
            role="tool" if number % 2 else "assistant",
            content=text,
            name=f"speaker {number}",
            tool_call_id="call" if number % 2 else None,
            tool_name="tool" if number % 2 else None,
            occurred_at=SOME_DAY - timedelta(days=number),
            metadata={} if number == 1 else {"n": number} if number == 2 else None,
        )
        request = AppendRequest(messages=(message,), conversation_id=talk)
        await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)
    return talk


async def _capture(organization: OrganizationStore, *ids: str, name: str = "s1") -> None:
    request = session(*ids, name=name)
    assert await organization.capture_messages(request, actor=ACTOR, quota=UNBOUNDED)


async def _memories(organization: OrganizationStore, clock: FakeClock) -> dict[str, str]:
    episode = await organization.memories.start_episode("harbour", "a watch", actor=ACTOR)
    await organization.memories.end_episode(episode, summary="quiet\r\n", actor=ACTOR)
    await organization.memories.start_episode("default", "unused", actor=ACTOR)
    one, two, gone, forgotten = await memory_drafts.remember(
        organization,
        "the light is red " + HOSTILE[0],
        "y" * 200_000,
        "to be removed",
        "to be forgotten",
        tags=("light", "buoy"),
        project="harbour",
        episode_id=episode,
        pattern_confidence=1 / 3,
        valid_from=SOME_DAY - timedelta(days=3),
    )
    await memory_drafts.store(
        organization, MemoryDraft(content="kept for ever", immutable=True, source="agent-7")
    )
    clock.advance(timedelta(minutes=1))
    await memory_drafts.correct(organization, one, content="the light is green")
    clock.advance(timedelta(minutes=1))
    await memory_drafts.correct(organization, one, importance=0, tags=())
    await organization.memories.set_summary(two, "many", actor=ACTOR)
    await memory_drafts.forget(organization, forgotten, clock, reason="no longer so")
    await organization.memories.purge(gone, actor=ACTOR)
    connect = organization.memories.connect
    await connect(memory_drafts.relation(one, two, "supports", strength=0.1), actor=ACTOR)
    await connect(memory_drafts.relation(two, forgotten, "supersedes"), actor=ACTOR)
    await _rate(organization, one, event_id="recall 1")
    await _rate(organization, one, two, helpful=False)
    return {"memory": one, "gone": gone, "forgotten": forgotten, "other": two}


async def _rate(organization: OrganizationStore, *ids: MemoryId, **fields: Any) -> None:
    feedback = Feedback(memory_ids=ids, **fields)
    await organization.memories.record_feedback(feedback, actor=ACTOR)


async def _documents(organization: OrganizationStore, clock: FakeClock) -> dict[str, str]:
    text = "# Café\r\n" + "\0 naïve 日本\n" * 30_000
    small = await document_drafts.store(organization, text, name="manual.md", project="harbour")
    large = await document_drafts.store(organization, "# Big\n" + "word " * 110_000)
    binary = await document_drafts.upload(
        organization, BINARY, name="scan.pdf", media_type=document_drafts.PDF
    )
    rest = await document_drafts.store(organization, "a document to forget", name="old.txt")
    await memory_drafts.forget(organization, rest.memory_id, clock)
    await memory_drafts.correct(organization, small.memory_id, importance=1)
    await document_drafts.begin(organization, name="never finished")
    return {"document": small.id, "large": large.id, "binary": binary.id}


async def export(organization: OrganizationStore, **request: Any) -> bytes:
    """Return an export."""
    return b"".join([part async for part in export_stream(organization, **request)])


def export_stream(organization: OrganizationStore, **request: Any) -> AsyncIterator[bytes]:
    """Return an export as it is read."""
    header = Header(
        format=FORMAT,
        version=VERSION,
        exported_at=format_time(SOME_DAY),
        engram="test",
        organization=Origin(id=organization.organization_id, name="Acme"),
    )
    return export_bytes(organization, ExportRequest(**request), header)


async def bring(
    organization: OrganizationStore,
    data: bytes,
    *,
    quota: Quota = UNBOUNDED,
    documents: DocumentLimits = LIMITS,
    piece_bytes: int = 70_000,
) -> ImportReceipt:
    """Import an export that arrives in pieces."""
    pieces = _pieces(data, piece_bytes)
    return await import_stream(organization, pieces, quota=quota, documents=documents)


async def import_stream(
    organization: OrganizationStore,
    pieces: AsyncIterator[bytes],
    *,
    quota: Quota = UNBOUNDED,
    documents: DocumentLimits = LIMITS,
) -> ImportReceipt:
    """Import an export as it arrives."""
    target = Target(
        store=organization,
        actor="importer",
        quota=quota,
        index=_words_alone,
        document_stored=_nothing,
        document_limits=documents,
    )
    return await import_bytes(target, pieces, begun=_nothing)


async def _words_alone(*_: object) -> Any:
    return WORDS_ALONE


async def _nothing(_: Document | Header) -> None:
    """Leave the indexing of documents to somebody else."""


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def body_of(data: bytes) -> bytes:
    """Return an export without its header."""
    return data.partition(b"\n")[2]


def lines_of(data: bytes, *kinds: str) -> list[dict[str, Any]]:
    """Return the lines of an export that have one of some types."""
    lines: Iterable[dict[str, Any]] = map(json.loads, data.splitlines())
    return [line for line in lines if not kinds or line["type"] in kinds]


def conversation_ids(data: bytes) -> list[ConversationId]:
    """Return the conversations of an export."""
    return [ConversationId(line["id"]) for line in lines_of(data, "conversation")]


def rewritten(
    lines: Sequence[dict[str, Any]],
    change: Callable[[dict[str, Any]], dict[str, Any]] = lambda line: line,
) -> bytes:
    """Return an export of lines that were changed, with the right hashes."""
    header, *others = lines
    kept = [change(line) for line in others if line["type"] not in ("check", "manifest")]
    tally, written = Tally(), [_encoded(header)]
    for line in kept:
        written.append(_encoded(line))
        tally.add(line["type"], written[-1])
    return b"".join([*written, encode_line(tally.manifest())])


def _encoded(line: dict[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
