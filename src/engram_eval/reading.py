"""Parser of evaluation sets; errors name the file and the line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias, assert_never, cast

import orjson

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.conversation import ConversationDraft, MessageDraft, Role
from engram.model.search import SearchRequest
from engram_eval.dataset import (
    EvaluationConversation,
    EvaluationMessage,
    EvaluationSet,
    Haystack,
    Question,
)

SUFFIX = ".dev.jsonl.gz"
PATH_SUFFIXES = (".jsonl", ".jsonl.gz")

_GZIP_MAGIC = b"\x1f\x8b"


def find_sets(sets: Sequence[str], *, directory: Path) -> tuple[Path, ...]:
    """Return the file of each set: a path as it is, a name as `NAME.dev.jsonl.gz`.

    Raises:
        InvalidRequestError: none is named, or one is missing; the message lists the available sets.
    """
    paths = tuple(_path_of(name, directory) for name in sets)
    missing = [str(path) for path in paths if not path.is_file()]
    if paths and not missing:
        return paths
    problem = f"not found: {', '.join(missing)}" if missing else "name at least one set"
    available = sorted(path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}"))
    message = f"{problem}; available in {directory}: {', '.join(available) or 'none'}"
    raise InvalidRequestError(message, field="sets")


def read_set(path: Path) -> EvaluationSet:
    """Parse a file of JSON lines, optionally compressed with gzip.

    Raises:
        InvalidRequestError: the file cannot be read, a line is invalid, or there are no questions.
    """
    assembly = Assembly()
    for number, line in _numbered_lines(path):
        with _placed(path, number):
            assembly.add(parse_row(line), number=number)
    for number, question in assembly.questions:
        with _placed(path, number):
            assembly.check(question)
    if not assembly.questions:
        raise InvalidRequestError("contains no question with evidence", field=str(path))
    file_name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return EvaluationSet(name=assembly.name or file_name, haystacks=assembly.haystacks())


def _path_of(name: str, directory: Path) -> Path:
    return Path(name) if name.endswith(PATH_SUFFIXES) else directory / f"{name}{SUFFIX}"


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank lines with their numbers."""
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(limits.BODY_BYTES_MAX + 1):
                number += 1
                if len(line) > limits.BODY_BYTES_MAX:
                    raise LimitExceededError(
                        _place(path, number),
                        limit=limits.BODY_BYTES_MAX,
                        actual=len(line),
                        unit="bytes",
                    )
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as exc:
        raise InvalidRequestError(f"cannot be read: {exc}", field=_place(path, number + 1)) from exc


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    with path.open("rb") as file:
        is_compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        if not is_compressed:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield cast("BinaryIO", unpacked)


@contextmanager
def _placed(path: Path, number: int) -> Generator[None]:
    """Add the file and the line to an error raised in the block."""
    try:
        yield
    except InvalidRequestError as exc:
        raise InvalidRequestError(str(exc), field=_place(path, number)) from exc


def _place(path: Path, number: int) -> str:
    return f"{path}, line {number}"


@dataclass(slots=True)
class _HaystackDraft:
    """A haystack under construction."""

    conversations: dict[str, EvaluationConversation] = field(
        default_factory=dict[str, EvaluationConversation]
    )
    message_ids: set[str] = field(default_factory=set[str])


class Assembly:
    """Collects the rows of a file into haystacks."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.questions: list[tuple[int, QuestionRow]] = []
        """The questions with evidence, each with its line number."""
        self._haystacks: dict[str, _HaystackDraft] = {}

    def add(self, row: Row, *, number: int) -> None:
        """Add the row of line `number`; pairs and questions without evidence are ignored.

        Raises:
            InvalidRequestError: its id is not unique.
        """
        match row:
            case MetaRow():
                self.name = row.name
            case ConversationRow():
                self._add_conversation(
                    self._haystacks.setdefault(row.haystack, _HaystackDraft()), row
                )
            case QuestionRow():
                if row.question.evidence or row.question.evidence_conversations:
                    self.questions.append((number, row))
            case "pair":
                pass
            case _:
                assert_never(row)

    def check(self, row: QuestionRow) -> None:
        """Validate the references of a question.

        Raises:
            InvalidRequestError: it refers to an unknown haystack, conversation or message.
        """
        haystack, question = self._haystacks.get(row.haystack, _HaystackDraft()), row.question
        until = () if question.until is None else (question.until,)
        _check_known("scope", (row.haystack,), self._haystacks)
        _check_known("evidence", question.evidence, haystack.message_ids)
        _check_known(
            "evidence_conversations", question.evidence_conversations, haystack.conversations
        )
        _check_known("until", until, haystack.conversations)

    def haystacks(self) -> tuple[Haystack, ...]:
        """Return the haystacks that have questions, in the order of their first question.

        The questions of each are foreign to the one before it.
        """
        by_haystack = dict[str, list[Question]]()
        for _, row in self.questions:
            by_haystack.setdefault(row.haystack, []).append(row.question)
        names = list(by_haystack)
        following = dict(zip(names, [*names[1:], *names[:1]], strict=True))
        return tuple(
            Haystack(
                id=name,
                conversations=tuple(self._haystacks[name].conversations.values()),
                questions=tuple(own),
                foreign=_foreign(name, following[name], by_haystack),
            )
            for name, own in by_haystack.items()
        )

    def _add_conversation(self, haystack: _HaystackDraft, row: ConversationRow) -> None:
        conversation = row.conversation
        _check_new("id", conversation.id, haystack.conversations)
        for index, message in enumerate(conversation.messages):
            _check_new(f"messages[{index}].id", message.id, haystack.message_ids)
            haystack.message_ids.add(message.id)
        haystack.conversations[conversation.id] = conversation


def _foreign(
    own: str, other: str, questions: Mapping[str, Sequence[Question]]
) -> tuple[Question, ...]:
    """Return at most as many questions about another haystack as there are about one's own."""
    return () if own == other else tuple(questions[other][: len(questions[own])])


def _check_new(name: str, identity: str, known: Iterable[str]) -> None:
    if identity in known:
        raise InvalidRequestError(f"{identity!r} is not unique in this haystack", field=name)


def _check_known(name: str, identities: Iterable[str], known: Iterable[str]) -> None:
    for identity in identities:
        if identity not in known:
            raise InvalidRequestError(f"{identity!r} does not exist", field=name)


@dataclass(frozen=True, slots=True)
class MetaRow:
    """The name of the set."""

    name: str


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation and its haystack."""

    haystack: str
    conversation: EvaluationConversation


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question and the haystack it is about."""

    haystack: str
    question: Question


Row: TypeAlias = MetaRow | ConversationRow | QuestionRow | Literal["pair"]


def parse_row(line: bytes) -> Row:
    """Parse a line of a set; unknown fields are ignored.

    Raises:
        InvalidRequestError: the line is invalid; the error names the field.
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
            raise InvalidRequestError("must be a JSON object")  # noqa: TRY301 the handler below adds the field
        message = cast("Mapping[str, Any]", row)
        return EvaluationMessage(id=_text(message, "id"), draft=_draft(message, date))
    except InvalidRequestError as exc:
        exc.prefix_field(f"messages[{index}]")
        raise


def _draft(row: Mapping[str, Any], date: datetime | None) -> MessageDraft:
    role = _text(row, "role")
    return MessageDraft(
        # The constructor rejects other roles.
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
        asked_at=_moment(row, "date"),
        answer=_optional(row, "answer") or "",
        verbatim=_optional(row, "verbatim") or "",
        labels=_labels(row),
    )


def _labels(row: Mapping[str, Any]) -> Mapping[str, str]:
    labels = row.get("labels", {})
    if not isinstance(labels, dict):
        raise InvalidRequestError("must be a JSON object", field="labels")
    known = cast("dict[str, Any]", labels)
    if not all(isinstance(value, str) for value in known.values()):
        raise InvalidRequestError("must have strings as values", field="labels")
    return known


def _text(row: Mapping[str, Any], field: str, *, may_be_empty: bool = False) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not (value or may_be_empty):
        required = "a string" if may_be_empty else "a non-empty string"
        raise InvalidRequestError(f"must be {required}", field=field)
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
        raise InvalidRequestError("must be a list of strings", field=field)
    return frozenset(cast("Sequence[str]", names))


def _moment(row: Mapping[str, Any], field: str) -> datetime | None:
    text = _optional(row, field)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidRequestError(
            "must be an ISO 8601 date, with or without a time", field=field
        ) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
