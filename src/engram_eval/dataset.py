"""Evaluation sets: haystacks of conversations, questions about them, and the order they are run in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from engram.model.conversation import ConversationDraft, MessageDraft

BATCH_MESSAGES_MAX = 100
BATCH_CHARACTERS_MAX = 200_000
"""Bounds of one append: large enough to be fast, small enough for one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationMessage:
    """A message to store, with the id that evidence refers to."""

    id: str
    draft: MessageDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationConversation:
    """A conversation of a haystack."""

    id: str
    draft: ConversationDraft
    messages: tuple[EvaluationMessage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the messages and conversations that contain its answer."""

    id: str
    text: str
    category: str
    evidence: frozenset[str]
    evidence_conversations: frozenset[str]
    until: str | None = None
    """Id of the conversation before which it is asked; None asks it at the end."""
    asked_at: datetime | None = None
    """What relative time in the text is counted from."""
    answer: str = ""
    """The answer in other words than the evidence's, if it is known."""
    verbatim: str = ""
    """Words that must stand in what is delivered, exactly as they were said."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further properties to report figures by, such as the size of the message it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Haystack:
    """The conversations one organisation stores, in order, and the questions about them."""

    id: str
    conversations: tuple[EvaluationConversation, ...]
    questions: tuple[Question, ...]
    foreign: tuple[Question, ...] = ()
    """Questions about another haystack, which nothing here answers."""

    @property
    def message_count(self) -> int:
        return sum(len(conversation.messages) for conversation in self.conversations)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSet:
    """The haystacks that have questions with evidence."""

    name: str
    haystacks: tuple[Haystack, ...]

    @property
    def question_count(self) -> int:
        return sum(len(haystack.questions) for haystack in self.haystacks)

    @property
    def foreign_count(self) -> int:
        return sum(len(haystack.foreign) for haystack in self.haystacks)

    @property
    def message_count(self) -> int:
        return sum(haystack.message_count for haystack in self.haystacks)


def limit_questions(whole: EvaluationSet, *, questions_max: int | None) -> EvaluationSet:
    """Return the set with only its first questions and the haystacks they are about."""
    if questions_max is None:
        return whole
    return replace(whole, haystacks=tuple(_first(whole, questions_max)))


def _first(whole: EvaluationSet, left: int) -> Iterator[Haystack]:
    for haystack in whole.haystacks:
        if left <= 0:
            return
        yield replace(
            haystack, questions=haystack.questions[:left], foreign=haystack.foreign[:left]
        )
        left -= len(haystack.questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Conversations to store, then questions to ask."""

    conversations: tuple[EvaluationConversation, ...]
    questions: tuple[Question, ...]


def stages_of(haystack: Haystack) -> Iterator[Stage]:
    """Yield the stages of a haystack: a question sees only what comes before its `until`."""
    waiting = dict[str | None, list[Question]]()
    for question in haystack.questions:
        waiting.setdefault(question.until, []).append(question)
    stored = list[EvaluationConversation]()
    for conversation in haystack.conversations:
        if due := waiting.pop(conversation.id, None):
            yield Stage(conversations=tuple(stored), questions=tuple(due))
            stored = []
        stored.append(conversation)
    yield Stage(conversations=tuple(stored), questions=tuple(waiting.pop(None, ())))


def batches_of(messages: Sequence[EvaluationMessage]) -> Iterator[tuple[EvaluationMessage, ...]]:
    """Group the messages into batches to append."""
    batch, characters = list[EvaluationMessage](), 0
    for message in messages:
        size = len(message.draft.content)
        is_full = len(batch) == BATCH_MESSAGES_MAX
        if batch and (is_full or characters + size > BATCH_CHARACTERS_MAX):
            yield tuple(batch)
            batch, characters = [], 0
        batch.append(message)
        characters += size
    if batch:
        yield tuple(batch)
