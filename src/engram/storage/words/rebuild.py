"""Build a new word index from the messages, beside live traffic.

The new index grows next to the old one, some conversations to a transaction, and takes its place in
the transaction that finds nothing left to do. Until then searches use the old one, and every writer
changes both. So no reader ever sees half an index, and no writer waits for the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from engram.clock import to_microseconds
from engram.errors import ConflictError, StoreNewerError
from engram.storage.bookkeeping.numbering import mend_numbers
from engram.storage.bookkeeping.state import State, read_state
from engram.storage.content.training import FIRST_DUE_BYTES
from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.words.rows import (
    Stretch,
    add_next_rows,
    batches_of_rows,
    known_words,
    words_in_windows,
    words_of,
)
from engram.text.analyse import ANALYSER_VERSION

BATCH_MESSAGES = 1_000
"""Indexed in one transaction, if conversations are that short."""

BATCH_CHARACTERS = 8_000_000
"""Analysed ahead of a transaction and held in memory; a longer rest is analysed inside it."""

PATIENCE = timedelta(minutes=30)
"""Far longer than a batch takes."""

_NUMBER_MAX = 2**63 - 1

_SQL = load_queries("words/rebuild.sql")


@dataclass(slots=True)
class _Batch:
    """Conversations to index next, with the words that were analysed ahead."""

    upto: int
    known: dict[int, list[MessageWords]] = field(default_factory=dict[int, list[MessageWords]])


async def prepare_upkeep(tenant: Tenant) -> None:
    """Give a new store its rows of state, and an old one a word index of this program's words.

    Raises:
        StoreNewerError: a newer program has built the word index.
    """
    versions = await tenant.database.read(partial(read_versions, tenant=tenant))
    if versions is None:
        versions = await tenant.database.write(partial(add_state, tenant=tenant))
    if max(versions) > ANALYSER_VERSION:
        raise StoreNewerError
    if versions[0] < ANALYSER_VERSION:
        await _bring_forward(tenant)
    elif await tenant.database.read(partial(is_abandoned, tenant=tenant)):
        await tenant.database.write(partial(drop_abandoned, tenant=tenant))


async def rebuild_words(tenant: Tenant) -> int:
    """Replace the word index by a new one; return the messages read.

    Raises:
        ConflictError: another rebuild began in the meantime, and goes on.
        StoreNewerError: a newer program has built the present one.
    """
    rebuild_id = tenant.ids.new("job_")
    await tenant.database.write(partial(_begin, tenant=tenant, rebuild_id=rebuild_id))
    return await _build(tenant, rebuild_id)


async def _bring_forward(tenant: Tenant) -> None:
    """Build a word index of this program's words, together with every process that opens the store.

    So none of them is refused, and when one dies the others go on from where it was.
    """
    rebuild_id = tenant.ids.new("job_")
    join = partial(_join, tenant=tenant, rebuild_id=rebuild_id)
    while (joined := await tenant.database.write(join)) is not None:
        # Raised when another process has finished, or begun anew.
        with suppress(ConflictError):
            await _build(tenant, joined)


async def _build(tenant: Tenant, rebuild_id: str) -> int:
    """Index batch after batch until the new index takes over; return the messages read."""
    total = 0
    while True:
        batch = await tenant.database.read(
            partial(_read_batch, tenant=tenant, rebuild_id=rebuild_id)
        )
        indexed = await tenant.database.write(
            partial(_index_batch, tenant=tenant, rebuild_id=rebuild_id, batch=batch)
        )
        if indexed is None:
            return total
        total += indexed


def read_versions(connection: Connection, *, tenant: Tenant) -> tuple[int, int] | None:
    """Return the analysers of the word index and of that being built; None in a new store."""
    row = tenant.execute(connection, _SQL["get_versions"]).fetchone()
    return None if row is None else (row[0], row[1] or 0)


def add_state(connection: Connection, *, tenant: Tenant) -> tuple[int, int]:
    """Add the rows of state that are missing; return the analysers as `read_versions` does."""
    tenant.execute(connection, _SQL["add_counters"])
    tenant.execute(connection, _SQL["add_vector_state"])
    tenant.execute(
        connection,
        _SQL["add_upkeep"],
        version=ANALYSER_VERSION,
        due_bytes=FIRST_DUE_BYTES,
        now=tenant.now(),
    )
    mend_numbers(connection, tenant)
    return read_versions(connection, tenant=tenant) or (0, 0)


def _join(connection: Connection, *, tenant: Tenant, rebuild_id: str) -> str | None:
    """Return the rebuild to take part in: the one under way, or a new one; None if none is due."""
    version, next_version = read_versions(connection, tenant=tenant) or (0, 0)
    if version == ANALYSER_VERSION:
        return None
    if next_version == ANALYSER_VERSION:
        return tenant.execute(connection, _SQL["get_rebuild"]).fetchone()[0]
    _begin(connection, tenant=tenant, rebuild_id=rebuild_id)
    return rebuild_id


def _begin(connection: Connection, *, tenant: Tenant, rebuild_id: str) -> None:
    versions = read_versions(connection, tenant=tenant)
    if versions is not None and max(versions) > ANALYSER_VERSION:
        raise StoreNewerError
    tenant.words.begin_next(connection, organization_id=tenant.number)
    tenant.execute(
        connection,
        _SQL["begin_rebuild"],
        rebuild_id=rebuild_id,
        version=ANALYSER_VERSION,
        until=_until(tenant),
    )


def _read_upto(connection: Connection, tenant: Tenant, rebuild_id: str) -> int:
    present_id, upto = tenant.execute(connection, _SQL["get_rebuild"]).fetchone()
    if present_id != rebuild_id:
        raise ConflictError("another reindex has begun and goes on")
    return upto


def _read_batch(connection: Connection, *, tenant: Tenant, rebuild_id: str) -> _Batch:
    """Analyse the next conversations, as many as one transaction should index."""
    upto = _read_upto(connection, tenant, rebuild_id)
    batch = _Batch(upto)
    messages_left, characters_left = BATCH_MESSAGES, BATCH_CHARACTERS
    cursor = tenant.execute(connection, _SQL["next_conversations"], after=upto, upto=_NUMBER_MAX)
    for row in cursor:
        if messages_left <= 0 or characters_left <= 0:
            break
        stretch = Stretch(*row)
        words = words_of(connection, tenant, stretch, skip_damaged=True)
        known = known_words(words, characters_max=characters_left)
        batch.known[stretch.conversation] = known
        batch.upto = stretch.conversation
        messages_left -= stretch.last_sequence
        characters_left -= sum(item.characters for item in known)
    return batch


def _index_batch(
    connection: Connection, *, tenant: Tenant, rebuild_id: str, batch: _Batch
) -> int | None:
    """Index what is left of a batch's conversations; None when the new index took over."""
    after = _read_upto(connection, tenant, rebuild_id)
    if not tenant.execute(connection, _SQL["has_more"], after=after).fetchone():
        _take_over(connection, tenant)
        return None
    if batch.upto <= after:
        # Another process was faster.
        return 0
    stretches = [
        Stretch(*row)
        for row in tenant.execute(
            connection, _SQL["next_conversations"], after=after, upto=batch.upto
        ).fetchall()
    ]
    for stretch in stretches:
        _index_conversation(connection, tenant, stretch, batch.known)
    tenant.execute(
        connection,
        _SQL["advance_rebuild"],
        rebuild_id=rebuild_id,
        upto=batch.upto,
        until=_until(tenant),
    )
    return sum(stretch.last_sequence for stretch in stretches)


def _index_conversation(
    connection: Connection,
    tenant: Tenant,
    stretch: Stretch,
    known: Mapping[int, Sequence[MessageWords]],
) -> None:
    batches = batches_of_rows(
        connection,
        tenant,
        stretch,
        known=known.get(stretch.conversation, ()),
        skip_damaged=True,
    )
    for rows in batches:
        words = words_in_windows(rows, last_sequence=stretch.last_sequence)
        add_next_rows(connection, tenant, rows, window_words=words)


def _take_over(connection: Connection, tenant: Tenant) -> None:
    tenant.words.take_over(connection, organization_id=tenant.number)
    tenant.execute(connection, _SQL["end_rebuild"], version=ANALYSER_VERSION)


def is_abandoned(connection: Connection, *, tenant: Tenant) -> bool:
    """Say whether a rebuild was begun and not continued: its process must have died."""
    row = tenant.execute(connection, _SQL["is_abandoned"], now=tenant.now()).fetchone()
    return row is not None


def drop_abandoned(connection: Connection, *, tenant: Tenant) -> None:
    """Drop what an abandoned rebuild has left, if it was not taken up meanwhile."""
    if is_abandoned(connection, tenant=tenant):
        tenant.words.drop_next(connection, organization_id=tenant.number)
        tenant.execute(connection, _SQL["forget_rebuild"])


def clear_state(connection: Connection, tenant: Tenant, *, now: int) -> State:
    """Return the state, freed of a rebuild whose process died: nobody should write for it on."""
    state = read_state(connection, tenant)
    if state.rebuild_until is None or state.rebuild_until > now:
        return state
    drop_abandoned(connection, tenant=tenant)
    return read_state(connection, tenant)


def _until(tenant: Tenant) -> int:
    return to_microseconds(tenant.clock.now() + PATIENCE)
