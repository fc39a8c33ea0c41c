"""Overlapping windows of messages: five messages each, with a stride of three.

The windows of a conversation follow from its last sequence alone, so they are not stored, and are the same
however its messages arrived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.conversation import Message


class Window(NamedTuple):
    """The `number`-th window of a conversation, from 0, and the sequences it covers."""

    number: int
    start: int
    end: int


def window(number: int, *, last_sequence: int) -> Window:
    """Return the window with that number in a conversation that ends at `last_sequence`."""
    start = number * WINDOW_STRIDE + 1
    return Window(number, start, min(start + WINDOW_MESSAGES - 1, last_sequence))


def window_count(last_sequence: int) -> int:
    """Return the number of windows in a conversation of `last_sequence` messages."""
    if last_sequence == 0:
        return 0
    return 1 + -(-max(0, last_sequence - WINDOW_MESSAGES) // WINDOW_STRIDE)


def windows_of(last_sequence: int) -> tuple[Window, ...]:
    """Return all windows of a conversation of `last_sequence` messages."""
    count = window_count(last_sequence)
    return tuple(window(number, last_sequence=last_sequence) for number in range(count))


def window_numbers_holding(sequence: int, *, last_sequence: int) -> range:
    """Return the numbers of the windows that contain the message at `sequence`."""
    first = max(0, -(-(sequence - WINDOW_MESSAGES) // WINDOW_STRIDE))
    last = min((sequence - 1) // WINDOW_STRIDE, window_count(last_sequence) - 1)
    return range(first, last + 1)


def window_gains(before: int, after: int) -> dict[int, int]:
    """Return the change in `windows_holding` of each message when the last sequence changes.

    Only messages whose number changes are included: those added or removed, and earlier ones
    that share an added or removed window with them.
    """
    first = max(1, min(before, after) - WINDOW_MESSAGES + 1)
    counts = window_count(before), window_count(after)
    gains: dict[int, int] = {}
    # Every append comes here, so the windows of a message are counted without a call for each.
    for sequence in range(first, max(before, after) + 1):
        earliest = max(0, -(-(sequence - WINDOW_MESSAGES) // WINDOW_STRIDE))
        latest = (sequence - 1) // WINDOW_STRIDE + 1
        held_before = min(latest, counts[0]) - earliest if sequence <= before else 0
        held_after = min(latest, counts[1]) - earliest if sequence <= after else 0
        if held_after != held_before:
            gains[sequence] = held_after - held_before
    return gains


def windows_holding(sequence: int, *, last_sequence: int) -> int:
    """Return the number of windows that contain the message at `sequence`; 0 after the last."""
    if sequence > last_sequence:
        return 0
    return len(window_numbers_holding(sequence, last_sequence=last_sequence))


def window_text(messages: Iterable[Message]) -> str:
    """Return the text of a window: `[role]: content` for each message."""
    return "\n".join(f"[{_speaker(message)}]: {message.content}" for message in messages)


def _speaker(message: Message) -> str:
    return f"{message.name} ({message.role})" if message.name else message.role
