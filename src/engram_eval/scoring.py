"""Scores of one ranked answer: recall of the evidence within a token budget, and its rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engram.model.search import SearchResult
from engram_eval.dataset import EvaluationConversation, Question

TOKEN_CHARACTERS = 4
"""Characters per token, independent of any model, so that systems can be compared."""

EVIDENCE_TOKENS = (500, 1_000, 2_000, 4_000)
SESSION_DEPTHS = (5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A text in an answer; `message_id` is None unless it is a complete message of the set."""

    message_id: str | None
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A result of an answer, with the ids of the set."""

    conversation: str | None
    shown: tuple[Shown, ...]


class Places:
    """Map from stored conversations and messages to their ids in the set."""

    def __init__(self) -> None:
        self._conversations: dict[str, str] = {}
        self._messages: dict[tuple[str, int], tuple[str, str]] = {}

    @property
    def message_count(self) -> int:
        return len(self._messages)

    def record(self, stored_as: str, conversation: EvaluationConversation) -> None:
        """Record where a conversation was stored; its messages have the sequences 1, 2, 3 …"""
        self._conversations[stored_as] = conversation.id
        for sequence, message in enumerate(conversation.messages, start=1):
            self._messages[stored_as, sequence] = message.id, message.draft.content

    def hits(self, results: Sequence[SearchResult]) -> tuple[Hit, ...]:
        """Translate a ranked answer to the ids of the set."""
        return tuple(
            Hit(
                conversation=self._conversations.get(result.owner.id),
                shown=tuple(self._shown(result)),
            )
            for result in results
        )

    def _shown(self, result: SearchResult) -> Iterator[Shown]:
        for found in result.messages:
            sequence, content = found.message.sequence, found.message.content
            identity, whole = self._messages.get((result.owner.id, sequence), (None, None))
            # An excerpt costs tokens by its length, but does not count as evidence.
            yield Shown(message_id=identity if content == whole else None, characters=len(content))


def tokens_of(hits: Sequence[Hit]) -> float:
    """Return the length of an answer in tokens."""
    return sum(shown.characters for hit in hits for shown in hit.shown) / TOKEN_CHARACTERS


def score_answer(question: Question, hits: Sequence[Hit]) -> Mapping[str, float]:
    """Return the figures of one answer, each in 0..1, that its kind of evidence allows."""
    sessions = _session_figures(question.evidence_conversations, hits)
    messages = _message_figures(question.evidence, hits)
    return dict([*sessions, *messages])


def _session_figures(gold: frozenset[str], hits: Sequence[Hit]) -> Iterator[tuple[str, float]]:
    if not gold:
        return
    # Repeated conversations count once.
    ranked = list(dict.fromkeys(hit.conversation for hit in hits if hit.conversation is not None))
    for depth in SESSION_DEPTHS:
        found = len(gold.intersection(ranked[:depth]))
        yield f"session_any@{depth}", float(found > 0)
        yield f"session_recall@{depth}", found / len(gold)
        yield f"session_all@{depth}", float(found == len(gold))


def _message_figures(gold: frozenset[str], hits: Sequence[Hit]) -> Iterator[tuple[str, float]]:
    if not gold:
        return
    shown = [shown for hit in hits for shown in hit.shown]
    ends = list(accumulate(each.characters for each in shown))
    for tokens in EVIDENCE_TOKENS:
        characters = tokens * TOKEN_CHARACTERS
        seen = {each.message_id for each, end in zip(shown, ends, strict=True) if end <= characters}
        yield f"evidence@{tokens}", len(gold & seen) / len(gold)
    ranks = (rank for rank, each in enumerate(shown, start=1) if each.message_id in gold)
    first = next(ranks, None)
    yield "message_mrr", 0.0 if first is None else 1 / first
