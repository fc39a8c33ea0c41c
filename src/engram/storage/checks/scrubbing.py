"""Read everything in small steps, over days: prove contents and rows, and hash the rows without a hash.

One process at a time reads an organisation, under a lease. How far it has come is stored with every slice of work,
so that any process goes on from there. `doctor` checks more, all at once: this finds what rots meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import accumulate
from typing import Any

from engram import limits
from engram.clock import from_microseconds
from engram.model.ids import MessageKey
from engram.model.row_keys import SEQUENCE_BITS, position_of
from engram.model.status import ScrubState
from engram.model.value import Value
from engram.storage.bookkeeping.row_hashes import (
    HASHED_TABLES,
    IS_CHANGED,
    MEMORY_VERSION,
    MESSAGE,
    HashedTable,
    Key,
    count_unhashed,
    put_hash,
    read_page,
)
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text, read_conversation_ids
from engram.storage.content.pieces import PIECE
from engram.storage.queue import LEASE_MAX
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction
from engram.storage.trash.rows import FIRST_PART, next_parts

_SQL = load_queries("checks/scrubbing.sql")
_MICROSECOND = timedelta(microseconds=1)
_INTERVAL = timedelta(days=limits.SCRUB_DAYS) // _MICROSECOND

_ROWS_MAX = 500
"""Rows read in a step if they are small, and hashed in one transaction: a few milliseconds of the write lock."""

_PIECES_MAX = 4
"""Pieces of documents read in a step."""

_ROW_BYTES = 200
"""What a small row counts towards the rate."""

_FOUND_KEPT = 5
"""Faults whose messages are stored; the log has all of them."""

_PIECES = "document_piece"
_TRASHED = "trash_part contents"
"""Apart from the rows of `trash_part`: these are small, and are read by the hundred."""

_ORDER = (*(table.name for table in HASHED_TABLES), _PIECES, _TRASHED)
_BY_NAME = {table.name: table for table in HASHED_TABLES}


class ScrubProgress(Value):
    """How far a pass over an organisation has come."""

    table: str | None
    """The table to read next; None when all were read."""
    after: Key | None = None
    rows: int = 0
    faults: int = 0
    found: tuple[str, ...] = ()
    """The first faults."""


class ScrubStep(Value):
    """What one step has read."""

    rows: int
    read_bytes: int
    last: Key | None
    """The key of the last row; None if there was none."""
    faults: tuple[str, ...] = ()
    unhashed: int = 0
    """Rows that an older version stored; they have hashes now."""


class Scrubbing(TenantStore):
    """Passes over everything that an organisation has stored."""

    async def claim_scrub(self, *, owner: str, lease: timedelta) -> ScrubProgress | None:
        """Lease the pass that has begun or is due; None if there is none, or another process has it."""

        def find(tx: Transaction) -> bool:
            statement = _SQL["find_scrub"].format(due=_SQL["due"])
            return tx.execute(statement, **_due(tx, owner)).fetchone() is not None

        def claim(tx: Transaction) -> ScrubProgress | None:
            due = _due(tx, owner)
            until = due["now"] + lease // _MICROSECOND
            statement = _SQL["claim_scrub"].format(due=_SQL["due"])
            row = tx.execute(statement, **due, until=until, first=_ORDER[0]).fetchone()
            return None if row is None else _progress_of(row)

        return await self._tenant.write(claim) if await self._tenant.read(find) else None

    async def scrub_step(self, progress: ScrubProgress) -> tuple[ScrubStep, ScrubProgress]:
        """Read the next rows of a pass; return what that found, and how far the pass is then."""
        step = await self._tenant.read(partial(_step, progress=progress))
        if step.unhashed and progress.table is not None:
            page = {"table": _BY_NAME[progress.table], "after": progress.after}
            await self._tenant.write(partial(_hash_some, **page, rows_max=step.unhashed))
        return step, _advance(progress, step)

    async def put_scrub(self, progress: ScrubProgress, *, owner: str) -> bool:
        """Store how far a pass is, or that it is finished, and give the lease back; False if it was lost."""

        def write(tx: Transaction) -> bool:
            values = {
                "owner": owner,
                "rows": progress.rows,
                "faults": progress.faults,
                "found": json.dumps(progress.found),
            }
            if progress.table is None:
                done = tx.execute(_SQL["finish_scrub"], **values, now=tx.shared_now())
            else:
                place = {"table": progress.table, "key": json.dumps(progress.after)}
                done = tx.execute(_SQL["put_scrub"], **values, **place)
            return done.rowcount == 1

        return await self._tenant.write(write)

    async def scrub_state(self) -> ScrubState:
        """Return when everything was last read, and what that found."""

        def read(tx: Transaction) -> ScrubState:
            row = tx.execute(_SQL["get_scrub"]).fetchone()
            if row is None:
                return ScrubState()
            finished_at, last_faults, faults, found = row
            return ScrubState(
                finished_at=None if finished_at is None else from_microseconds(finished_at),
                faults=max(last_faults, faults),
                found=tuple(json.loads(found or "[]")),
            )

        return await self._tenant.read(read)

    async def count_unhashed(self) -> int:
        """Return how many rows an older version has stored, without a hash to be proved by."""
        return await self._tenant.read(count_unhashed)

    async def hash_rows(self) -> int:
        """Hash the rows that an older version has stored, in steps; return how many."""
        if not await self.count_unhashed():
            return 0
        return sum([await _hash_table(self._tenant, table) for table in HASHED_TABLES])


def _due(tx: Transaction, owner: str) -> dict[str, Any]:
    now = tx.shared_now()
    return {
        "owner": owner,
        "now": now,
        "lease_max": now + LEASE_MAX // _MICROSECOND,
        "since": now - _INTERVAL,
    }


def _progress_of(row: Sequence[Any]) -> ScrubProgress:
    table, key, rows, faults, found = row
    return ScrubProgress(
        # A table of a version that this program does not know is read from the first one again.
        table=table if table in _ORDER else _ORDER[0],
        after=None if key is None else json.loads(key),
        rows=rows,
        faults=faults,
        found=tuple(json.loads(found)),
    )


def _advance(progress: ScrubProgress, step: ScrubStep) -> ScrubProgress:
    table, after = progress.table, step.last
    if after is None and table is not None:
        place = _ORDER.index(table) + 1
        table = _ORDER[place] if place < len(_ORDER) else None
    return ScrubProgress(
        table=table,
        after=after,
        rows=progress.rows + step.rows,
        faults=progress.faults + len(step.faults),
        found=(*progress.found, *step.faults)[:_FOUND_KEPT],
    )


def _step(tx: Transaction, *, progress: ScrubProgress) -> ScrubStep:
    if progress.table == _PIECES:
        return _read_pieces(tx, progress.after)
    if progress.table == _TRASHED:
        return _read_trash(tx, progress.after)
    table = _BY_NAME[progress.table or _ORDER[0]]
    rows_max = _messages_that_fit(tx, progress.after) if table is MESSAGE else _ROWS_MAX
    rows = read_page(tx, table, after=progress.after, rows_max=rows_max)
    if not rows:
        return ScrubStep(rows=0, read_bytes=0, last=None)
    owner = tx.tenant.id
    changed = [
        f"{_message_name(tx, row.key['key']) if table is MESSAGE else row.name} {IS_CHANGED}"
        for row in rows
        if not row.is_sound(owner)
    ]
    read_bytes, unreadable = _read_contents(tx, table, progress.after, rows[-1].key, len(rows))
    return ScrubStep(
        rows=len(rows),
        read_bytes=len(rows) * _ROW_BYTES + read_bytes,
        last=rows[-1].key,
        faults=(*changed, *unreadable),
        unhashed=sum(not row.is_hashed for row in rows),
    )


def _messages_that_fit(tx: Transaction, after: Key | None) -> int:
    """Return how many of the next messages a step reads: at least one, and not much text."""
    asked = {"after": after["key"] if after else -1, "rows_max": _ROWS_MAX}
    sizes = [characters for (characters,) in tx.execute(_SQL["message_sizes"], **asked)]
    totals = accumulate(sizes)
    return max(1, sum(total <= limits.SCRUB_STEP_CHARACTERS for total in totals))


def _read_contents(
    tx: Transaction, table: HashedTable, after: Key | None, last: Key, rows: int
) -> tuple[int, list[str]]:
    """Decode the contents of the rows of a page; return their bytes, and the faults."""
    if table is MESSAGE:
        asked = {"after": after["key"] if after else -1, "rows_max": rows}
        found = tx.execute(_SQL["message_contents"], **asked)
        return _decode_each(tx, found, partial(_message_name, tx))
    if table is MEMORY_VERSION:
        first = after or {"memory": -1, "version": -1}
        until = {f"last_{name}": value for name, value in last.items()}
        found = tx.execute(_SQL["version_contents"], **first, **until)
        named = ((f"{memory} {version}", *rest) for memory, version, *rest in found)
        return _decode_each(tx, named, "memory_version {}".format)
    return 0, []


def _decode_each(
    tx: Transaction, rows: Iterable[Any], name: Callable[[Any], str]
) -> tuple[int, list[str]]:
    read_bytes, faults = 0, list[str]()
    for key, encoding, sha256, content in rows:
        read_bytes += len(content)
        if encoding == PIECE:
            continue  # The bytes are read with the document that they are part of.
        try:
            decode_text(tx, content, encoding=encoding, sha256=sha256)
        except ContentError as exc:
            faults.append(f"{name(key)} cannot be read: {exc}")
    return read_bytes, faults


def _message_name(tx: Transaction, key: int) -> str:
    number = MessageKey(key) >> SEQUENCE_BITS
    ids = read_conversation_ids(tx, [number])
    return f"message {position_of(key)} of {ids.get(number, 'a conversation that is missing')}"


def _read_pieces(tx: Transaction, after: Key | None) -> ScrubStep:
    asked = {"after": after["key"] if after else -1, "rows_max": _PIECES_MAX}
    rows = tx.execute(_SQL["pieces"], **asked).fetchall()
    faults = list[str]()
    for key, encoding, sha256, content in rows:
        try:
            tx.tenant.codec.decode_bytes(content, encoding=encoding, sha256=sha256)
        except ContentError as exc:
            faults.append(f"document_piece {key} cannot be read: {exc}")
    return ScrubStep(
        rows=len(rows),
        read_bytes=sum(len(content) for *_, content in rows),
        last={"key": rows[-1][0]} if rows else None,
        faults=tuple(faults),
    )


def _read_trash(tx: Transaction, after: Key | None) -> ScrubStep:
    start = FIRST_PART if after is None else (after["id"], after["position"])
    parts = next_parts(tx, after=start)
    return ScrubStep(
        rows=len(parts),
        read_bytes=sum(len(part.content) for part in parts),
        last={"id": parts[-1].id, "position": parts[-1].position} if parts else None,
        faults=tuple(part.fault for part in parts if part.fault is not None),
    )


async def _hash_table(tenant: Tenant, table: HashedTable) -> int:
    hashed, after, rows_max = 0, None, _ROWS_MAX
    while keys := await tenant.write(
        partial(_hash_some, table=table, after=after, rows_max=rows_max)
    ):
        hashed, after = hashed + len(keys), keys[-1]
    return hashed


def _hash_some(
    tx: Transaction, *, table: HashedTable, after: Key | None, rows_max: int
) -> list[Key]:
    """Hash the next rows of a table that have no hash; return their keys."""
    which = "AND row_hash IS NULL"
    rows = read_page(tx, table, after=after, rows_max=rows_max, which=which)
    for row in rows:
        put_hash(tx, table, row)
    return [row.key for row in rows]
