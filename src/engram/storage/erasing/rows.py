"""The rows of erasures: progress, counts and receipts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from engram.clock import from_microseconds
from engram.errors import NotFoundError
from engram.model.erasure import (
    ERASURE_PREFIX,
    ErasureReceipt,
    ErasureScope,
    ErasureState,
    Subject,
    parse_subject,
)
from engram.model.ids import ErasureId
from engram.storage.bookkeeping.row_hashes import ERASURE, changing
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("erasing/erasing.sql")


class ErasureRow(NamedTuple):
    """The columns of `get_erasure`."""

    id: ErasureId
    scope: ErasureScope
    value: str | None
    state: ErasureState
    actor: str
    requested_at: int
    finished_at: int | None
    last_conversation: int
    last_memory: int
    removed: str
    files: str

    @property
    def subject(self) -> Subject | None:
        """Return the subject that is erased, if it is one."""
        if self.scope != "subject" or self.value is None:
            return None
        return parse_subject(self.value)

    @property
    def receipt(self) -> ErasureReceipt:
        """Return what a caller sees of it."""
        finished_at = None if self.finished_at is None else from_microseconds(self.finished_at)
        return ErasureReceipt(
            id=self.id,
            scope=self.scope,
            state=self.state,
            actor=self.actor,
            requested_at=from_microseconds(self.requested_at),
            finished_at=finished_at,
            removed=json.loads(self.removed),
            files=tuple(json.loads(self.files)),
        )


def find_last(tx: Transaction) -> dict[str, int]:
    """Return the last numbers of conversations and memories: what is stored later is not erased."""
    conversation, memory = tx.execute(_SQL["last_numbers"]).fetchone()
    return {"last_conversation": conversation, "last_memory": memory}


def add_erasure(tx: Transaction, *, scope: ErasureScope, value: str, actor: str) -> ErasureRow:
    """Store a new erasure and return its row."""
    values: dict[str, Any] = {
        "id": tx.tenant.ids.new(ERASURE_PREFIX),
        "scope": scope,
        "value": value,
        "state": "hiding",
        "actor": actor,
        "requested_at": tx.tenant.now(),
        **find_last(tx),
        "removed": "{}",
        "files": "[]",
    }
    row_hash = ERASURE.hash(tx.tenant.id, {**values, "finished_at": None})
    tx.execute(_SQL["add_erasure"], **values, row_hash=row_hash)
    return find_erasure(tx, values["id"])


def find_erasure(tx: Transaction, erasure_id: ErasureId) -> ErasureRow:
    """Return the row of an erasure.

    Raises:
        NotFoundError: there is none with this id.
    """
    row = tx.execute(_SQL["get_erasure"], id=erasure_id).fetchone()
    if row is None:
        raise NotFoundError("erasure", erasure_id)
    return ErasureRow(*row)


def list_erasures(tx: Transaction, *, limit: int) -> list[ErasureRow]:
    """Return the newest erasures, the newest first."""
    return [ErasureRow(*row) for row in tx.execute(_SQL["list_erasures"], limit=limit).fetchall()]


def change_erasure(tx: Transaction, erasure_id: ErasureId, **changed: Any) -> ErasureRow:
    """Change columns of an erasure and return its row."""
    row = find_erasure(tx, erasure_id)._replace(**changed)
    kept = ("value", "state", "finished_at", "removed", "files")
    values = {name: getattr(row, name) for name in kept}
    with changing(tx, ERASURE, id=erasure_id):
        tx.execute(_SQL["change_erasure"], id=erasure_id, **values)
    return row


def count_removed(tx: Transaction, erasure_id: ErasureId, added: Mapping[str, int]) -> None:
    """Add to what an erasure has removed, in the transaction that removes it."""
    removed: dict[str, int] = json.loads(find_erasure(tx, erasure_id).removed)
    for kind, number in added.items():
        if number:
            removed[kind] = removed.get(kind, 0) + number
    change_erasure(tx, erasure_id, removed=json.dumps(removed, separators=(",", ":")))


def add_erased(tx: Transaction, erasure_id: ErasureId, erased_id: str) -> bool:
    """Note the id of something that is removed; return False if it was noted before."""
    return tx.execute(_SQL["add_erased"], erasure=erasure_id, id=erased_id).rowcount == 1


def list_erased(tx: Transaction, erasure_id: ErasureId) -> list[str]:
    """Return the ids that an erasure has removed, until they are forgotten."""
    rows = tx.execute(_SQL["list_erased"], erasure=erasure_id)
    return [erased_id for (erased_id,) in rows.fetchall()]
