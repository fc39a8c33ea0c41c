"""What stored rows count towards the quota of bytes.

Every row counts `STORED_ROW_BYTES` and the texts that a caller gave, in UTF-8 and not compressed, so
that both databases count alike. New rows are sized before they are stored; what changes or goes is
measured by statements that say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engram.limits import STORED_ROW_BYTES
from engram.model.row_keys import message_key
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bookkeeping/stored_size.sql")
_NO_VERSION = 2**62


def text_bytes(*texts: str | None) -> int:
    """Return the UTF-8 bytes of texts; None is none."""
    return sum(len(text.encode()) for text in texts if text is not None)


def row_bytes(*texts: str | None) -> int:
    """Return what a row with these texts counts."""
    return STORED_ROW_BYTES + text_bytes(*texts)


def message_bytes(values: Mapping[str, Any]) -> int:
    """Return what a message counts beside its content, from the values of `add_message`."""
    return row_bytes(
        values["name"], values["tool_call_id"], values["tool_name"], values["metadata"]
    )


def memory_bytes(values: Mapping[str, Any], *, tags: Sequence[str]) -> int:
    """Return what a memory counts beside its content, from the values of its row."""
    texts = (values["project"], values["source"], values["tags"])
    kept = (values.get("reason"), values.get("summary"))
    return STORED_ROW_BYTES * len(tags) + row_bytes(*texts, *kept)


def measure_conversation(tx: Transaction, number: int) -> int:
    """Return what a conversation counts, with its tags, messages and idempotency keys."""
    return _measure(
        tx,
        "size_of_conversation",
        conversation=number,
        first=message_key(number, 0),
        last=message_key(number + 1, 0) - 1,
    )


def measure_memory(tx: Transaction, number: int, *, since: int = _NO_VERSION) -> int:
    """Return what a memory counts with its present text and its versions from `since` on."""
    return _measure(tx, "size_of_memory", number=number, since=since)


def measure_removed(tx: Transaction, number: int) -> int:
    """Return what goes with a memory: its versions, relations and feedback included."""
    ties = _measure(tx, "size_of_ties", number=number)
    return measure_memory(tx, number, since=0) + ties


def measure_feedback(tx: Transaction, number: int) -> int:
    """Return what the feedback on a memory counts."""
    return _measure(tx, "size_of_feedback", number=number)


def measure_episode(tx: Transaction, episode_id: str) -> int:
    """Return what an episode counts, 0 if there is none."""
    return _measure(tx, "size_of_episode", id=episode_id)


def measure_episodes(tx: Transaction, project: str) -> int:
    """Return what the episodes of a project count."""
    return _measure(tx, "size_of_episodes", project=project)


def measure_document(tx: Transaction, number: int) -> int:
    """Return what a document or upload counts beside its pieces, 0 if there is none."""
    return _measure(tx, "size_of_document", number=number)


def measure_all(tx: Transaction) -> int:
    """Return what everything counts, by reading every row."""
    return _measure(tx, "size_of_all")


def _measure(tx: Transaction, statement: str, **values: Any) -> int:
    row = tx.execute(_SQL[statement], row=STORED_ROW_BYTES, **values).fetchone()
    return 0 if row is None or row[0] is None else row[0]
