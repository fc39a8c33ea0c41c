"""Import of messages from JSONL files and stdin; all lines are validated before the first is stored."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from engram import limits
from engram.cli.output import Advance, counted, print_notice
from engram.errors import EngramError, InvalidRequestError, LimitExceededError
from engram.model.access import Principal
from engram.model.conversation import AppendReceipt, AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.model.request import parse
from engram.model.value import replace
from engram.service import Service

STDIN = Path("-")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_lines(path: Path) -> Generator[BinaryIO]:
    """Open the file at `path`, or a temporary copy of stdin for `-`, so that it can be read twice.

    Raises:
        InvalidRequestError: the file cannot be read.
    """
    try:
        file = _copied_stdin() if path == STDIN else path.open("rb")
    except OSError as exc:
        message = f"{path} cannot be read: {exc.strerror}"
        raise InvalidRequestError(message, field="jsonl") from exc
    with file:
        yield file


def read_drafts(file: BinaryIO) -> Iterator[MessageDraft]:
    """Yield the message of each line; empty lines are skipped.

    Raises:
        InvalidRequestError: a line is not a valid message; the error names its number.
    """
    file.seek(0)
    number = 0
    while line := file.readline(limits.BODY_BYTES_MAX + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if line.strip():
            yield _draft(line, number)


def batches(drafts: Iterable[MessageDraft]) -> Iterator[tuple[MessageDraft, ...]]:
    """Group the drafts into the largest batches that one append accepts."""
    batch, size = list[MessageDraft](), 0
    for draft in drafts:
        draft_size = len(draft.content.encode())
        is_full = len(batch) == limits.MESSAGES_PER_CALL_MAX
        if batch and (is_full or size + draft_size > limits.CALL_BYTES_MAX):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(draft)
        size += draft_size
    if batch:
        yield tuple(batch)


def _copied_stdin() -> BinaryIO:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 the caller closes it
    shutil.copyfileobj(sys.stdin.buffer, copy)
    return cast("BinaryIO", copy)


def _draft(line: bytes, number: int) -> MessageDraft:
    try:
        if len(line) > limits.BODY_BYTES_MAX:
            raise LimitExceededError(
                "line", limit=limits.BODY_BYTES_MAX, actual=len(line), unit="bytes"
            )
        return parse(MessageDraft, _decoded(line))
    except InvalidRequestError as exc:
        raise _at_line(exc, number) from exc


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise InvalidRequestError(f"is not JSON: {exc}") from exc


def _at_line(error: InvalidRequestError, number: int) -> InvalidRequestError:
    error.field = f"line {number}, {error.field}" if error.field else f"line {number}"
    return error


async def import_messages(
    service: Service,
    me: Principal,
    drafts: Iterable[MessageDraft],
    *,
    conversation_id: str | None,
    idempotency_key: str | None,
    advance: Advance,
) -> AppendReceipt:
    """Append all drafts to one conversation and return the receipt one append would give.

    Raises:
        InvalidRequestError: there are no drafts.
    """
    target = None if conversation_id is None else ConversationId(conversation_id)
    receipts = list[AppendReceipt]()
    try:
        for number, batch in enumerate(batches(drafts), start=1):
            request = AppendRequest(
                messages=batch,
                conversation_id=target,
                idempotency_key=_key_of_batch(idempotency_key, number),
            )
            receipt = await service.conversations.append_messages(me, request)
            receipts.append(receipt)
            target = receipt.conversation_id
            advance(len(batch))
    except EngramError:
        stored = sum(len(receipt.message_ids) for receipt in receipts)
        print_notice(f"stored before the error: {counted(stored, 'message')}")
        raise
    await service.background.work(me.organization_id)
    return _joined(receipts)


def _key_of_batch(key: str | None, number: int) -> str | None:
    """Return the key of a batch: a repeated import forms the same batches.

    The first has the key as it was given, so that the same call in another way is the same call.
    """
    return f"{key}:{number}" if key and number > 1 else key


def _joined(receipts: list[AppendReceipt]) -> AppendReceipt:
    if not receipts:
        raise InvalidRequestError("the file contains no messages")
    last = receipts[-1]
    if last.quota_warning:
        print_notice(last.quota_warning)
    return replace(
        last,
        message_ids=tuple(id_ for receipt in receipts for id_ in receipt.message_ids),
        first_sequence=receipts[0].first_sequence,
    )
