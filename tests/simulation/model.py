"""What must be true of a store, whatever happened to it: the model that every answer is compared with.

An operation is open until its answer comes; if none comes, it stays open: its effect may be there as a
whole, or not at all. Whatever was seen once stays. Texts have one word each that no other has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engram.model.access import Principal
from engram.model.conversation import AppendReceipt, Message, MessagePage
from engram.model.memory import Memory
from engram.model.search import SearchAnswer, SearchResult, TextRange

Outcome = Literal["open", "done"]


class ViolationError(AssertionError):
    """The store did not do what it promises."""


def demand(condition: object, message: str) -> None:
    """Raise what stops a simulation, unless the condition holds."""
    if not condition:
        raise ViolationError(message)


@dataclass(eq=False, slots=True)
class Append:
    """Messages that were sent together, under a key if there is one."""

    texts: tuple[str, ...]
    words: tuple[str, ...]
    key: str | None
    after: int
    """The last sequence that was acknowledged before it was sent."""
    outcome: Outcome = "open"
    first: int = 0
    ids: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class Conversation:
    """A conversation whose creation was acknowledged."""

    id: str
    appends: list[Append] = field(default_factory=list[Append])
    deletion: Outcome | None = None

    @property
    def done(self) -> list[Append]:
        """Return what is known to be stored."""
        return [append for append in self.appends if append.outcome == "done"]

    @property
    def last(self) -> int:
        """Return the last sequence that is known to be stored."""
        return max((append.first + len(append.texts) - 1 for append in self.done), default=0)

    def acknowledge(self, append: Append, receipt: AppendReceipt) -> None:
        """Compare a receipt with what is known."""
        demand(receipt.conversation_id == self.id, "a receipt names another conversation")
        demand(len(receipt.message_ids) == len(append.texts), "a receipt counts other messages")
        demand(receipt.first_sequence > append.after, "an append precedes what was there before")
        if append.outcome == "done":
            demand(receipt.first_sequence == append.first, "an append was stored twice")
            demand(not append.ids or receipt.message_ids == append.ids, "messages have new ids")
        append.outcome, append.first, append.ids = (
            "done",
            receipt.first_sequence,
            receipt.message_ids,
        )

    def check(self, page: MessagePage, required: Sequence[Append]) -> None:
        """Compare a whole conversation with what was known to be in it before it was read."""
        messages = page.messages
        found = [message.sequence for message in messages]
        demand(found == list(range(1, len(found) + 1)), f"sequences have gaps: {found}")
        demand(page.total == len(messages), "the total differs from the messages")
        demand(page.conversation.message_count == len(messages), "a conversation counts wrongly")
        for append in required:
            demand(
                append.first + len(append.texts) - 1 <= len(found), "acknowledged messages are lost"
            )
        self._match(messages)

    def _match(self, messages: Sequence[Message]) -> None:
        """Find the append of every message; each is there once, as a whole."""
        firsts = {append.first: append for append in self.done}
        others = [append for append in self.appends if append.outcome == "open"]
        at = 0
        while at < len(messages):
            append = firsts.get(at + 1) or _find_open(others, messages[at:])
            demand(append is not None, f"message {at + 1} is nobody's, half or altered")
            assert append is not None
            block = messages[at : at + len(append.texts)]
            demand(
                tuple(message.content for message in block) == append.texts,
                f"messages {at + 1} to {at + len(append.texts)} are altered or half",
            )
            if append.ids:
                demand(tuple(m.id for m in block) == append.ids, "messages have other ids")
            if append in others:
                others.remove(append)
                append.outcome, append.first = "done", at + 1
                append.ids = tuple(message.id for message in block)
            at += len(append.texts)

    def text_at(self, sequence: int) -> str | None:
        """Return the text known to be at a sequence."""
        for append in self.done:
            if append.first <= sequence < append.first + len(append.texts):
                return append.texts[sequence - append.first]
        return None

    def may_contain(self, text: str, part: TextRange | None) -> bool:
        """Return True if an append sent this text, or a text of which it is that part."""
        texts = (each for append in self.appends for each in append.texts)
        if part is None:
            return text in texts
        return any(len(each) == part.of and each[part.start : part.end] == text for each in texts)


def _find_open(others: Iterable[Append], messages: Sequence[Message]) -> Append | None:
    for append in others:
        texts = tuple(message.content for message in messages[: len(append.texts)])
        if texts == append.texts:
            return append
    return None


@dataclass(eq=False, slots=True)
class MemoryEntry:
    """A memory, note or document that was acknowledged."""

    id: str
    possible: list[str | None]
    """The texts that it may have now; None if it may be forgotten or removed."""
    is_busy: bool = False
    """Whether somebody changes it: changes of one memory come one after the other."""
    document_id: str | None = None
    body: bytes = b""

    @property
    def is_forgotten(self) -> bool:
        """Return True if it is known to be gone."""
        return self.possible == [None]

    def check(self, memory: Memory) -> None:
        """Compare a memory that was read."""
        texts = [text for text in self.possible if text is not None]
        demand(
            self.document_id is not None or memory.content in texts or not memory.is_searched,
            f"memory {self.id} is altered",
        )


@dataclass(eq=False, slots=True)
class Tenant:
    """An organisation, and everything its clients know of it."""

    id: str
    principal: Principal
    conversations: dict[str, Conversation] = field(default_factory=dict[str, Conversation])
    memories: dict[str, MemoryEntry] = field(default_factory=dict[str, MemoryEntry])
    loose: dict[str, int] = field(default_factory=dict[str, int])
    """Texts of memories without an answer: each may be there, so many times at most."""
    loose_titles: set[str] = field(default_factory=set[str])
    """Titles of conversations without an answer."""

    def check_answer(self, answer: SearchAnswer, *, gone: frozenset[str]) -> None:
        """Refuse results that belong to others, were deleted before, or are altered."""
        for result in answer.results:
            owner = result.owner.id
            demand(owner not in gone, f"{owner} was deleted, and a search finds it")
            if result.kind == "conversation":
                self._check_conversation(result)
            else:
                self._check_memory(result)

    def _check_conversation(self, result: SearchResult) -> None:
        conversation = self.conversations.get(result.owner.id)
        demand(conversation is not None, "a search returns a conversation of another tenant")
        assert conversation is not None
        for found in result.messages:
            text = found.message.content
            demand(
                conversation.may_contain(text, found.range),
                f"a search returns a text nobody sent: {text[:60]!r}",
            )

    def _check_memory(self, result: SearchResult) -> None:
        assert isinstance(result.owner, Memory)
        entry = self.memories.get(result.owner.id)
        if entry is None:
            is_document = result.owner.storage_mode == "document"
            is_loose = self.loose.get("document" if is_document else result.owner.content)
            demand(is_loose, "a search returns a memory of another tenant")
        else:
            entry.check(result.owner)

    def gone(self) -> frozenset[str]:
        """Return what is known to be deleted now."""
        conversations = (c.id for c in self.conversations.values() if c.deletion == "done")
        memories = (m.id for m in self.memories.values() if m.is_forgotten)
        return frozenset((*conversations, *memories))
