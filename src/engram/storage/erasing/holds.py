"""Refuse to erase what is under a legal hold, before anything of an erasure is touched."""

from __future__ import annotations

from collections.abc import Sequence

from engram.model.ids import MessageKey
from engram.model.row_keys import conversation_of
from engram.storage.bookkeeping.holds import refuse_held
from engram.storage.conversations.records import FoundConversation, refuse_held_conversation
from engram.storage.erasing.selecting import FoundMemory, Trashed
from engram.storage.memories.rows import read_row, thing_of
from engram.storage.tenant import Transaction
from engram.storage.trash.entries import get_entry


def refuse_held_conversations(tx: Transaction, *, found: Sequence[FoundConversation]) -> None:
    """Raise `HeldError` if one of some conversations is under a legal hold."""
    for each in found:
        refuse_held_conversation(tx, each.stretch.conversation)


def refuse_held_memories(tx: Transaction, *, found: Sequence[FoundMemory]) -> None:
    """Raise `HeldError` if one of some memories is under a legal hold."""
    for memory in found:
        refuse_held(tx, thing_of(read_row(tx, memory.id)))


def refuse_held_messages(tx: Transaction, *, found: Sequence[MessageKey]) -> None:
    """Raise `HeldError` if the conversation of one of some messages is under a legal hold."""
    for number in {conversation_of(key) for key in found}:
        refuse_held_conversation(tx, number)


def refuse_held_trash(tx: Transaction, *, found: Sequence[Trashed]) -> None:
    """Raise `HeldError` if one of some entries of the trash is under a legal hold."""
    for each in found:
        entry = get_entry(tx, each.id)
        if entry is not None:
            refuse_held(tx, entry.held)
