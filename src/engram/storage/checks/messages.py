"""Read every message of an organisation and prove its text, its length and its conversation's bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from engram.model.row_keys import message_key, position_of
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text
from engram.storage.content.pieces import PIECE
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/verification.sql")


@dataclass(frozen=True, slots=True)
class DamagedMessage:
    """A message that cannot be read back, and why."""

    conversation_id: str
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True)
class WrongLength:
    """A message whose stored number of characters is wrong."""

    conversation_id: str
    sequence: int
    key: int
    characters: int
    """The true number."""


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """A conversation whose stored number of bytes is wrong."""

    conversation_id: str
    conversation: int
    excess: int
    """What it says above the true number."""


Fault: TypeAlias = DamagedMessage | WrongLength | WrongBytes


def check_messages(tx: Transaction) -> Iterator[Fault]:
    """Yield every fault of the organisation's messages, in order."""
    conversations = tx.execute(_SQL["conversation_sizes"])
    for number, conversation_id, content_bytes in conversations:
        true_bytes, is_damaged = 0, False
        for fault, message_bytes in _read_all(tx, number, conversation_id):
            true_bytes += message_bytes
            is_damaged = is_damaged or isinstance(fault, DamagedMessage)
            if fault is not None:
                yield fault
        if true_bytes != content_bytes and not is_damaged:
            yield WrongBytes(conversation_id, number, content_bytes - true_bytes)


def describe(fault: Fault) -> str:
    """Return a fault in words."""
    match fault:
        case DamagedMessage(conversation_id, sequence, reason):
            return f"message {sequence} of {conversation_id} cannot be read: {reason}"
        case WrongLength(conversation_id, sequence):
            return f"the length of message {sequence} of {conversation_id} is wrong"
        case WrongBytes(conversation_id, _, excess):
            return f"{conversation_id} says {excess:+} bytes more than it has"


def _read_all(
    tx: Transaction, number: int, conversation_id: str
) -> Iterator[tuple[DamagedMessage | WrongLength | None, int]]:
    """Yield for each message its fault, if it has one, and its bytes."""
    rows = tx.execute(
        _SQL["messages_of"], first=message_key(number, 0), last=message_key(number + 1, 0) - 1
    )
    for key, characters, encoding, sha256, content in rows:
        sequence = position_of(key)
        try:
            text = decode_text(tx, content, encoding=encoding, sha256=sha256)
        except ContentError as exc:
            yield DamagedMessage(conversation_id, sequence, str(exc)), 0
            continue
        is_right = characters == len(text)
        fault = None if is_right else WrongLength(conversation_id, sequence, key, len(text))
        # The bytes of a chunk are those of its document.
        yield fault, 0 if encoding == PIECE else len(text.encode())
