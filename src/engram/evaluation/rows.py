"""The lines of an evaluation set, each proved on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

import orjson

from engram.errors import InvalidRequestError
from engram.evaluation.dataset import EvaluationConversation, EvaluationMessage, Question
from engram.model.conversation import ConversationDraft, MessageDraft, Role
from engram.model.search import SearchRequest


@dataclass(frozen=True, slots=True)
class MetaRow:
    """The name of the set."""

    name: str


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation and the haystack it lies in."""

    haystack: str
    conversation: EvaluationConversation


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question and the haystack it is about."""

    haystack: str
    question: Question


Row: TypeAlias = MetaRow | ConversationRow | QuestionRow | Literal["pair"]


def parse_row(line: bytes) -> Row:
    """Return what a line of a set says; fields it does not know are passed over.

    Raises:
        InvalidRequestError: it is not a line of a set; names the field.
    """
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as exc:
        raise InvalidRequestError(f"character {exc.colno} is not JSON: {exc.msg}") from exc
    if not isinstance(row, dict):
        raise InvalidRequestError("must be a JSON object")
    return _parse(cast("Mapping[str, Any]", row))


def _parse(row: Mapping[str, Any]) -> Row:
    match row.get("type"):
        case "meta":
            return MetaRow(f"{_text(row, 'name')}.{_text(row, 'split')}")
        case "conversation":
            return ConversationRow(_text(row, "haystack"), _conversation(row))
        case "question":
            return QuestionRow(_text(row, "scope"), _question(row))
        case "pair":
            return "pair"
        case _:
            known = "meta, conversation, question or pair"
            raise InvalidRequestError(f"must be {known}", field="type")


def _conversation(row: Mapping[str, Any]) -> EvaluationConversation:
    identity, date = _text(row, "id"), _moment(row, "date")
    title = _optional(row, "title") or _optional(row, "date") or identity
    return EvaluationConversation(
        id=identity,
        draft=ConversationDraft(title=title),
        messages=tuple(
            _message(message, index, date) for index, message in enumerate(_list(row, "messages"))
        ),
    )


def _message(row: object, index: int, date: datetime | None) -> EvaluationMessage:
    try:
        if not isinstance(row, dict):
            raise InvalidRequestError("must be a JSON object")  # noqa: TRY301 placed below
        message = cast("Mapping[str, Any]", row)
        return EvaluationMessage(id=_text(message, "id"), draft=_draft(message, date))
    except InvalidRequestError as exc:
        raise exc.within(f"messages[{index}]") from exc


def _draft(row: Mapping[str, Any], date: datetime | None) -> MessageDraft:
    role = _text(row, "role")
    return MessageDraft(
        # The constructor refuses other roles.
        role=cast("Role", role),
        content=_text(row, "content", may_be_empty=True),
        name=_optional(row, "name") or None,
        occurred_at=_moment(row, "date") or date,
    )


def _question(row: Mapping[str, Any]) -> Question:
    text = _text(row, "question")
    try:
        SearchRequest(query=text)
    except InvalidRequestError as exc:
        raise InvalidRequestError(exc.message, field="question") from exc
    return Question(
        id=_text(row, "id"),
        text=text,
        category=_optional(row, "category") or "?",
        evidence=_names(row, "evidence"),
        evidence_conversations=_names(row, "evidence_conversations"),
        until=_optional(row, "until"),
    )


def _text(row: Mapping[str, Any], field: str, *, may_be_empty: bool = False) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not (value or may_be_empty):
        raise InvalidRequestError("must be a text", field=field)
    return value


def _optional(row: Mapping[str, Any], field: str) -> str | None:
    return None if row.get(field) is None else _text(row, field, may_be_empty=True)


def _list(row: Mapping[str, Any], field: str) -> Sequence[object]:
    value = row.get(field)
    if not isinstance(value, list):
        raise InvalidRequestError("must be a list", field=field)
    return cast("list[object]", value)


def _names(row: Mapping[str, Any], field: str) -> frozenset[str]:
    names = () if row.get(field) is None else _list(row, field)
    if not all(isinstance(name, str) for name in names):
        raise InvalidRequestError("must be a list of texts", field=field)
    return frozenset(cast("Sequence[str]", names))


def _moment(row: Mapping[str, Any], field: str) -> datetime | None:
    text = _optional(row, field)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidRequestError("must be a date, or a date and a time", field=field) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
