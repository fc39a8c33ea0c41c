"""Give numbers to conversations and records, none ever twice: keys of all kinds are made of them."""

from __future__ import annotations

from engram.errors import StoreCorruptError
from engram.model.row_keys import KIND_BITS, KINDS, RecordKind, record_number
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("bookkeeping/numbering.sql")
_PLACES_SKIPPED = 1 << 20
"""More than can have been given and left no trace since a damaged state fell behind."""


def take_numbers(tx: Transaction, kind: RecordKind, count: int) -> range:
    """Return `count` numbers, at least one, that nothing of this kind ever had."""
    row = tx.execute(_SQL[f"take_{kind}"], count=count).fetchone()
    if row is None:
        raise StoreCorruptError("the state of upkeep is missing: run `engram doctor --repair`")
    last = record_number(kind, row[0])
    return range(last - count + 1, last + 1)


def find_numbers_behind(tx: Transaction) -> dict[RecordKind, int]:
    """Return the kinds whose next number was given before, and how many they must have had."""
    given = tx.execute(_SQL["given_numbers"]).fetchone()
    if given is None:
        return {}
    present = {kind: _places_used(tx, kind) for kind in KINDS}
    return {
        kind: present[kind]
        for kind, place in zip(KINDS, given, strict=True)
        if place < present[kind]
    }


def mend_numbers(tx: Transaction) -> None:
    """Go on far behind the last number where a lower one would be given again."""
    behind = find_numbers_behind(tx)
    if not behind:
        return
    given = tx.execute(_SQL["given_numbers"]).fetchone()
    places = dict(zip(KINDS, given, strict=True))
    places |= {kind: place + _PLACES_SKIPPED for kind, place in behind.items()}
    tx.execute(_SQL["put_numbers"], **places)


def _places_used(tx: Transaction, kind: RecordKind) -> int:
    first = KINDS.index(kind) << KIND_BITS
    last = first + (1 << KIND_BITS) - 1
    row = tx.execute(_SQL["newest_number"], first=first, last=last).fetchone()
    return row[0] - first
