"""Scores of one answer: recall of the evidence within a token budget, its rank, and what was delivered.

In the text that a model is sent, a message counts if it stands there whole, wherever that is: white space is
folded, and escapes and marks of continued lines are undone, so that the layout of an answer is free.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from engram.model.search import SearchResult
from engram.text.tokens import count_tokens
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


PAID_TOKENS = (250, 500, 1_000, 2_000)

CURVE_TOKENS = (100, 250, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000)
"""Where the curves of evidence against tokens have their points."""

SILENT_TOKENS = 150
"""A shorter answer is silence: one line and the nearest misses."""

ANSWER_SHARE = 0.6
"""The share of an answer's words that is enough: nobody repeats each of them."""

OVERHEAD_CHARACTERS_MIN = 4
"""A shorter message stands in any text by chance."""

_FORM = re.compile(
    r"(?:\\[nrt]|\s)+(?:\|\s)?|\\u[0-9a-fA-F]{4}|\\.|&lt;|&gt;|&amp;|&quot;|&#x?[0-9a-fA-F]+;",
    re.DOTALL,
)
_ESCAPED_CHARACTERS = len(r"\n")
_WORD = re.compile(r"\w+")
_STOPWORDS = frozenset(
    _WORD.findall(
        "a an the of to in on at for and or is are was were be been it its this that with as by"
        " from i you he she they we my your his her their our"
    )
)


def fold(text: str) -> str:
    """Return a text as it reads: escapes undone, white space and marks of continued lines folded."""
    return _FORM.sub(lambda form: _character(form[0]), text)


def _character(form: str) -> str:
    if form[0].isspace() or form[:2] in ("\\n", "\\r", "\\t"):
        return " "
    if form.startswith("\\"):
        return form[1] if len(form) == _ESCAPED_CHARACTERS else chr(int(f"0x{form[2:]}", 0))
    # An entity of no character must still fold to one, or later places would be wrong.
    return html.unescape(form) or "\ufffd"


class SentText:
    """The text of an answer, and what stands where in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = count_tokens(text)
        self._folded = fold(text)

    def holds(self, folded: str) -> bool:
        """Return True if a folded text stands in it; an empty one never does."""
        wanted = folded.strip()
        return bool(wanted) and wanted in self._folded

    def cost_of(self, folded: str) -> int | None:
        """Return the tokens up to the end of a folded text; None if that does not stand in it."""
        if not self.holds(folded):
            return None
        wanted = folded.strip()
        last = self._folded.index(wanted) + len(wanted) - 1
        return count_tokens(self.text[: self._ends[last]])

    def words_within(self, tokens: int) -> frozenset[str]:
        """Return the words of its first tokens."""
        if self.tokens <= tokens:
            return words_of(self.text)
        lengths = range(len(self.text) + 1)
        fitting = bisect_right(lengths, tokens, key=lambda end: count_tokens(self.text[:end])) - 1
        return words_of(self.text[:fitting])

    @cached_property
    def _ends(self) -> list[int]:
        """Where each character of the folded text ends in the text."""
        ends, at = list[int](), 0
        for form in _FORM.finditer(self.text):
            ends += range(at + 1, form.start() + 1)
            ends.append(form.end())
            at = form.end()
        return [*ends, *range(at + 1, len(self.text) + 1)]


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text that mean something."""
    return frozenset(_WORD.findall(text.lower())) - _STOPWORDS


@dataclass(frozen=True, slots=True)
class _Stored:
    folded: str
    tokens: int
    is_counted: bool


class StoredTexts:
    """The messages of a haystack that are stored so far, as they read."""

    def __init__(self) -> None:
        self._messages: dict[str, _Stored] = {}

    def record(self, conversation: EvaluationConversation) -> None:
        """Record the messages of a conversation."""
        for message in conversation.messages:
            content = message.draft.content
            self._messages[message.id] = _Stored(
                folded=fold(content),
                tokens=count_tokens(content),
                is_counted=len(content) >= OVERHEAD_CHARACTERS_MIN,
            )

    def costs_of(self, question: Question, sent: SentText) -> list[int | None]:
        """Return the tokens up to the end of each evidence; None if it was not sent, or not stored."""
        found = (self._messages.get(each) for each in question.evidence)
        return [None if message is None else sent.cost_of(message.folded) for message in found]

    def overhead_of(self, sent: SentText) -> float | None:
        """Return how many tokens were sent for each of stored text; None if no message stands in it."""
        stored = sum(
            message.tokens
            for message in self._messages.values()
            if message.is_counted and sent.holds(message.folded)
        )
        return sent.tokens / stored if stored else None


def score_sent(question: Question, sent: SentText, stored: StoredTexts) -> Mapping[str, float]:
    """Return the figures of what was sent, each in 0..1, that the question allows."""
    paid = evidence_curve(question, sent, stored, at=PAID_TOKENS)
    figures = ((f"paid@{tokens}", share) for tokens, share in paid.items())
    return dict([*figures, *_answer_figures(question, sent)])


def evidence_curve(
    question: Question, sent: SentText, stored: StoredTexts, *, at: tuple[int, ...]
) -> Mapping[int, float]:
    """Return the share of the evidence that stands within so many tokens; nothing without evidence."""
    costs = stored.costs_of(question, sent)
    paid = [cost for cost in costs if cost is not None]
    return {tokens: sum(cost <= tokens for cost in paid) / len(costs) for tokens in at if costs}


def _answer_figures(question: Question, sent: SentText) -> Iterator[tuple[str, float]]:
    if wanted := words_of(question.answer):
        for tokens in PAID_TOKENS:
            found = len(wanted & sent.words_within(tokens))
            yield f"answer@{tokens}", float(found >= ANSWER_SHARE * len(wanted))
    if question.verbatim:
        yield "delivered", float(sent.holds(fold(question.verbatim)))
