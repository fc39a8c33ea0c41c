"""The rows of a file put together: which haystack holds what, and whether its questions fit it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from engram.errors import InvalidRequestError
from engram.evaluation.dataset import EvaluationConversation, Haystack, Question
from engram.evaluation.rows import ConversationRow, MetaRow, QuestionRow, Row


@dataclass(slots=True)
class _Hay:
    """A haystack that is being filled."""

    conversations: dict[str, EvaluationConversation] = field(
        default_factory=dict[str, EvaluationConversation]
    )
    message_ids: set[str] = field(default_factory=set[str])


class Assembly:
    """Takes rows in the order of their file."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.asked: list[tuple[int, QuestionRow]] = []
        """The questions with evidence, each with its line."""
        self._hay: dict[str, _Hay] = {}

    def add(self, row: Row, *, number: int) -> None:
        """Take the row of line `number`; pairs and questions without evidence are passed over.

        Raises:
            InvalidRequestError: something of its name is there already.
        """
        match row:
            case MetaRow():
                self.name = row.name
            case ConversationRow():
                self._add_conversation(self._hay.setdefault(row.haystack, _Hay()), row)
            case QuestionRow():
                if row.question.evidence or row.question.evidence_conversations:
                    self.asked.append((number, row))
            case "pair":
                pass
            case _:
                assert_never(row)

    def check(self, row: QuestionRow) -> None:
        """Refuse a question about what its haystack does not hold.

        Raises:
            InvalidRequestError: it names a haystack, conversation or message that is not there.
        """
        hay, question = self._hay.get(row.haystack, _Hay()), row.question
        until = () if question.until is None else (question.until,)
        _check_known("scope", (row.haystack,), self._hay)
        _check_known("evidence", question.evidence, hay.message_ids)
        _check_known("evidence_conversations", question.evidence_conversations, hay.conversations)
        _check_known("until", until, hay.conversations)

    def haystacks(self) -> tuple[Haystack, ...]:
        """Return the haystacks that are asked about, in the order of their first question."""
        questions = dict[str, list[Question]]()
        for _, row in self.asked:
            questions.setdefault(row.haystack, []).append(row.question)
        return tuple(
            Haystack(
                id=haystack,
                conversations=tuple(self._hay[haystack].conversations.values()),
                questions=tuple(asked),
            )
            for haystack, asked in questions.items()
        )

    def _add_conversation(self, hay: _Hay, row: ConversationRow) -> None:
        conversation = row.conversation
        _check_new("id", conversation.id, hay.conversations)
        for index, message in enumerate(conversation.messages):
            _check_new(f"messages[{index}].id", message.id, hay.message_ids)
            hay.message_ids.add(message.id)
        hay.conversations[conversation.id] = conversation


def _check_new(name: str, identity: str, known: Iterable[str]) -> None:
    if identity in known:
        raise InvalidRequestError(f"{identity!r} is in this haystack already", field=name)


def _check_known(name: str, identities: Iterable[str], known: Iterable[str]) -> None:
    for identity in identities:
        if identity not in known:
            raise InvalidRequestError(f"there is no {identity!r}", field=name)
