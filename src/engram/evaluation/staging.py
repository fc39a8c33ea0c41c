"""The order of things: what is stored before which question, and in which appends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engram.evaluation.dataset import (
    EvaluationConversation,
    EvaluationMessage,
    Haystack,
    Question,
)

BATCH_MESSAGES_MAX = 100
BATCH_CHARACTERS_MAX = 200_000
"""What an importer sends at once: large enough to be quick, small enough to be one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Conversations to store, and then questions to ask."""

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
    """Yield the messages in the groups in which they are appended."""
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
