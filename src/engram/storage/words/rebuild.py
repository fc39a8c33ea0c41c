"""Build a new word index from the messages, beside live traffic.

The new index grows next to the old one, some conversations to a transaction, and takes its place in
the transaction that finds nothing left to do. Until then searches use the old one, and every writer
changes both. So no reader ever sees half an index, and no writer waits for the whole.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from engram.clock import to_microseconds
from engram.errors import ConflictError, StoreNewerError
from engram.storage.bookkeeping.state import State, mend_numbers, read_state
from engram.storage.content.compression import FIRST_DUE_BYTES
from engram.storage.postings.caches import REVISIONS_OF_LENGTHS
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rows import (
    Stretch,
    add_next_rows,
    batches_of_rows,
    first_words,
    words_in_windows,
    words_of,
)
from engram.text.analyse import ANALYSER_VERSION

BATCH_MESSAGES = 1_000
"""Indexed in one transaction, if conversations are that short."""

BATCH_CHARACTERS = 8_000_000
"""Analysed ahead of a transaction and held in memory; a longer rest is analysed inside it."""

PATIENCE = timedelta(minutes=30)
"""The lease of a rebuild; far longer than a batch takes."""

_NUMBER_MAX = 2**63 - 1

_SQL = load_queries("words/words.sql")


@dataclass(slots=True)
class _Batch:
    """Conversations to index next, with the words analysed before the transaction."""

    upto: int
    known: dict[int, list[MessageWords]] = field(default_factory=dict[int, list[MessageWords]])


async def prepare_upkeep(tenant: Tenant) -> None:
    """Add the state rows of a new store, and rebuild the word index of an older analyser.

    Raises:
        StoreNewerError: a newer program has built the word index.
    """
    versions = await tenant.read(read_versions)
    if versions is None:
        versions = await tenant.write(add_state)
    if max(versions) > ANALYSER_VERSION:
        raise StoreNewerError
    if versions[0] < ANALYSER_VERSION:
        await _bring_forward(tenant)
    elif await tenant.read(is_abandoned):
        await tenant.write(drop_abandoned)


async def rebuild_words(tenant: Tenant) -> int:
    """Replace the word index by a new one; return the messages read.

    Raises:
        ConflictError: another rebuild began in the meantime, and goes on.
        StoreNewerError: a newer program has built the present one.
    """
    rebuild_id = tenant.ids.new("job_")
    await tenant.write(partial(_begin, rebuild_id=rebuild_id))
    return await _build(tenant, rebuild_id)


async def _bring_forward(tenant: Tenant) -> None:
    """Rebuild the word index for this analyser, together with every process that opens the store.

    So none of them is refused, and when one dies the others continue.
    """
    rebuild_id = tenant.ids.new("job_")
    join = partial(_join, rebuild_id=rebuild_id)
    while (joined := await tenant.write(join)) is not None:
        # Raised when another process has finished, or started over.
        with suppress(ConflictError):
            await _build(tenant, joined)


async def _build(tenant: Tenant, rebuild_id: str) -> int:
    """Index batch after batch until the new index takes over; return the messages read."""
    total = 0
    while True:
        batch = await tenant.read(partial(_read_batch, rebuild_id=rebuild_id))
        indexed = await tenant.write(partial(_index_batch, rebuild_id=rebuild_id, batch=batch))
        if indexed is None:
            return total
        total += indexed


def read_versions(tx: Transaction) -> tuple[int, int] | None:
    """Return the analyser versions of the word index and of the one being built; None if new."""
    row = tx.execute(_SQL["get_versions"]).fetchone()
    return None if row is None else (row[0], row[1] or 0)


def add_state(tx: Transaction) -> tuple[int, int]:
    """Add the state rows that are missing; return the versions as `read_versions` does."""
    tx.execute(_SQL["add_counters"])
    tx.execute(_SQL["add_vector_state"])
    tx.execute(
        _SQL["add_upkeep"], version=ANALYSER_VERSION, due_bytes=FIRST_DUE_BYTES, now=tx.tenant.now()
    )
    mend_numbers(tx)
    return read_versions(tx) or (0, 0)


def _join(tx: Transaction, *, rebuild_id: str) -> str | None:
    """Return the rebuild to join: the one in progress, or a new one; None if none is due."""
    version, next_version = read_versions(tx) or (0, 0)
    if version == ANALYSER_VERSION:
        return None
    if next_version == ANALYSER_VERSION:
        return tx.execute(_SQL["get_rebuild"]).fetchone()[0]
    _begin(tx, rebuild_id=rebuild_id)
    return rebuild_id


def _begin(tx: Transaction, *, rebuild_id: str) -> None:
    versions = read_versions(tx)
    if versions is not None and max(versions) > ANALYSER_VERSION:
        raise StoreNewerError
    tx.tenant.words.begin_next(tx.connection, organization_id=tx.tenant.number)
    tx.execute(
        _SQL["begin_rebuild"],
        rebuild_id=rebuild_id,
        version=ANALYSER_VERSION,
        until=_until(tx.tenant),
    )


def _read_upto(tx: Transaction, rebuild_id: str) -> int:
    present_id, upto = tx.execute(_SQL["get_rebuild"]).fetchone()
    if present_id != rebuild_id:
        raise ConflictError("another reindex has begun and goes on")
    return upto


def _read_batch(tx: Transaction, *, rebuild_id: str) -> _Batch:
    """Analyse the next conversations, as many as one transaction should index."""
    upto = _read_upto(tx, rebuild_id)
    batch = _Batch(upto)
    messages_left, characters_left = BATCH_MESSAGES, BATCH_CHARACTERS
    cursor = tx.execute(_SQL["next_conversations"], after=upto, upto=_NUMBER_MAX)
    for row in cursor:
        if messages_left <= 0 or characters_left <= 0:
            break
        stretch = Stretch(*row)
        words = words_of(tx, stretch, skip_damaged=True)
        known = first_words(words, characters_max=characters_left)
        batch.known[stretch.conversation] = known
        batch.upto = stretch.conversation
        messages_left -= stretch.last_sequence
        characters_left -= sum(item.characters for item in known)
    return batch


def _index_batch(tx: Transaction, *, rebuild_id: str, batch: _Batch) -> int | None:
    """Index what is left of a batch's conversations; None when the new index is in use."""
    after = _read_upto(tx, rebuild_id)
    if not tx.execute(_SQL["has_more"], after=after).fetchone():
        tx.tenant.words.take_over(tx.connection, organization_id=tx.tenant.number)
        tx.execute(_SQL["end_rebuild"], version=ANALYSER_VERSION, revisions=REVISIONS_OF_LENGTHS)
        return None
    if batch.upto <= after:
        # Another process was faster.
        return 0
    stretches = [
        Stretch(*row)
        for row in tx.execute(_SQL["next_conversations"], after=after, upto=batch.upto).fetchall()
    ]
    for stretch in stretches:
        known = batch.known.get(stretch.conversation, ())
        for rows in batches_of_rows(tx, stretch, known=known, skip_damaged=True):
            words = words_in_windows(rows, last_sequence=stretch.last_sequence)
            add_next_rows(tx, rows, window_words=words)
    tx.execute(
        _SQL["advance_rebuild"], rebuild_id=rebuild_id, upto=batch.upto, until=_until(tx.tenant)
    )
    return sum(stretch.last_sequence for stretch in stretches)


def is_abandoned(tx: Transaction) -> bool:
    """Return True if a rebuild was begun and its lease has expired: its process died."""
    now = tx.tenant.now()
    row = tx.execute(_SQL["is_abandoned"], now=now, until_max=_until_max(now)).fetchone()
    return row is not None


def drop_abandoned(tx: Transaction) -> None:
    """Drop the index of an abandoned rebuild, unless another process has continued it."""
    if is_abandoned(tx):
        tx.tenant.words.drop_next(tx.connection, organization_id=tx.tenant.number)
        tx.execute(_SQL["forget_rebuild"])


def clear_state(tx: Transaction, *, now: int) -> State:
    """Return the state after dropping an abandoned rebuild, which writers need not maintain."""
    state = read_state(tx)
    if state.rebuild_until is None or now < state.rebuild_until <= _until_max(now):
        return state
    drop_abandoned(tx)
    return read_state(tx)


def _until_max(now: int) -> int:
    """Return the latest end of the lease of a rebuild that was continued by now."""
    return now + PATIENCE // timedelta(microseconds=1)


def _until(tenant: Tenant) -> int:
    return to_microseconds(tenant.clock.now() + PATIENCE)
