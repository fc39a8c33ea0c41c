"""Messages from files and pipes, checked to the last one before the first is stored."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from pydantic import ValidationError

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.conversation import MessageDraft
from engram.transport.requests import MessageInput, invalid_request

STDIN = Path("-")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_stdin_text() -> str:
    """Return what was piped in, every byte of it.

    Raises:
        InvalidRequestError: it is not UTF-8.
    """
    content = sys.stdin.buffer.read(limits.MESSAGE_BYTES_MAX + 1)
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        message = f"byte {exc.start} is not UTF-8 text"
        raise InvalidRequestError(message, field="stdin") from exc


@contextmanager
def open_lines(path: Path) -> Generator[BinaryIO]:
    """Yield a file that can be read twice: the one at `path`, or a copy of stdin for `-`.

    Raises:
        InvalidRequestError: it cannot be read.
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
        InvalidRequestError: a line is not a valid message; it names the line's number.
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
    """Yield the drafts in the largest groups that one append may hold."""
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
        return MessageInput.model_validate_json(line).to_model()
    except ValidationError as exc:
        raise _at_line(invalid_request(exc), number) from exc
    except InvalidRequestError as exc:
        raise _at_line(exc, number) from exc


def _at_line(error: InvalidRequestError, number: int) -> InvalidRequestError:
    error.field = f"line {number}, {error.field}" if error.field else f"line {number}"
    return error
