"""Rebuild derived data that is wrong; messages themselves are never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from engram.storage.bookkeeping.counters import COUNTER_NAMES
from engram.storage.checks.documents import check_documents
from engram.storage.checks.faults import Fault
from engram.storage.checks.memories import check_memories
from engram.storage.checks.verification import check_messages, count_all, newest_seq, verify
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import add_unembedded
from engram.storage.words.rebuild import add_state, drop_abandoned, rebuild_words

_SQL = load_queries("checks/repair.sql")
_VECTOR_FAULTS = load_queries("checks/vectors.sql")

_VECTOR_REPAIRS = (
    ("delete_bad_vectors", "bad_vectors"),
    ("delete_bad_instant_vectors", "bad_vectors"),
    # A message that has lost a vector does not keep the others.
    ("delete_broken_passages", "broken_passages"),
    ("delete_instants", "broken_instant_passages"),
    ("delete_instants", "outdated_instants"),
    ("delete_waiting", "needless_waiting"),
)
"""A statement that repairs, and the one that finds the faults."""

_SEQS_SKIPPED = 1 << 32
"""More than a damaged state can be behind what other processes have read."""


async def repair(tenant: Tenant) -> int:
    """Rebuild what `verify` finds wrong and can be derived; return how many findings that repairs."""
    findings = [finding async for finding in verify(tenant) if finding.repairable]
    found = {finding.check for finding in findings}
    if "file" in found:
        await tenant.write(_rebuild_indexes)
    if "jobs" in found:
        await tenant.write(_release_jobs)
    if found & {"counters", "sequences"}:
        await tenant.write(_recount_messages)
        await _repair_each(tenant, check_messages)
    if found & {"counters", "memories"}:
        await _repair_each(tenant, check_memories)
    # The words of windows depend on the length of their conversation.
    if found & {"words", "sequences", "documents"}:
        await rebuild_words(tenant)
    # Chunks are removed from the word index by their words.
    if "documents" in found:
        await _repair_each(tenant, check_documents)
    # Whether vectors cover a message depends on its length.
    if "vectors" in found:
        await tenant.write(_repair_vectors)
    if found & {"counters", "sequences", "vectors", "documents"}:
        await tenant.write(_recount)
    return len(findings)


async def _repair_each(tenant: Tenant, check: Callable[[Transaction], Iterator[Fault]]) -> None:
    """Repair the faults of a check that are repaired one by one."""
    # A check reads every text, so it runs before the write lock is taken.
    repairs = await tenant.read(lambda tx: [fault.repair for fault in check(tx) if fault.repair])
    for each in repairs:
        await tenant.write(each)


def _rebuild_indexes(tx: Transaction) -> None:
    tx.connection.execute(_SQL["rebuild_indexes"])


def _release_jobs(tx: Transaction) -> None:
    tx.execute(_SQL["delete_unnamed_jobs"])
    tx.execute(_SQL["release_invalid_jobs"])
    add_state(tx)
    drop_abandoned(tx)


def _recount_messages(tx: Transaction) -> None:
    tx.execute(_SQL["recount_messages"])
    tx.execute(_SQL["recount_empty"])


def _repair_vectors(tx: Transaction) -> None:
    """Remove what is wrong, queue messages without vectors, and have every process read all again."""
    for statement, faults in _VECTOR_REPAIRS:
        found = _VECTOR_FAULTS[faults].removesuffix(";")
        tx.execute(_SQL[statement].replace("/*found*/", found))
    lost = tx.execute(_VECTOR_FAULTS["lost_messages"]).fetchall()
    add_unembedded(tx, [key for _, key in lost])
    seq = newest_seq(tx) + _SEQS_SKIPPED
    tx.execute(_SQL["delete_vector_state"])
    tx.execute(_SQL["add_vector_state"], seq=seq)


def _recount(tx: Transaction) -> None:
    true = dict(zip(COUNTER_NAMES, count_all(tx), strict=True))
    tx.execute(_SQL["delete_counters"])
    tx.execute(_SQL["add_counters"], **true)
