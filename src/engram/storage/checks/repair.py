"""Build anew what is derived from messages and found wrong; messages themselves are never changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram.storage.bookkeeping.counters import COUNTER_NAMES
from engram.storage.checks.documents import DocumentFault, check_documents, mend_document
from engram.storage.checks.memories import WrongLabels, WrongTextBytes, check_memories, mend_memory
from engram.storage.checks.messages import WrongBytes, WrongLength, check_messages
from engram.storage.checks.vectors import newest_seq
from engram.storage.checks.verification import count_all, verify
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import add_state, drop_abandoned, rebuild_words

_CHECK = load_queries("checks/vectors.sql")
_VECTOR_SQL = load_queries("checks/vector_repair.sql")

_STEPS = (
    ("delete_bad_vectors", "bad_vectors"),
    ("delete_bad_instant_vectors", "bad_vectors"),
    # A message that has lost a vector does not keep the others.
    ("delete_broken_passages", "broken_passages"),
    ("delete_instants", "broken_instant_passages"),
    ("delete_instants", "outdated_instants"),
    ("delete_waiting", "needless_waiting"),
    ("add_waiting", "lost_messages"),
)
_SEQS_SKIPPED = 1 << 32
"""More than a damaged state can have fallen behind what other processes have read."""


def mend_vectors(tx: Transaction) -> None:
    """Remove what is wrong, enqueue what lacks vectors, and have every process read all anew."""
    for change, found in _STEPS:
        statement = _VECTOR_SQL[change].replace("/*found*/", _CHECK[found].removesuffix(";"))
        tx.execute(statement)
    seq = newest_seq(tx) + _SEQS_SKIPPED
    tx.execute(_VECTOR_SQL["forget_state"])
    tx.execute(_VECTOR_SQL["add_state"], seq=seq)


_SQL = load_queries("checks/repair.sql")


async def repair(tenant: Tenant) -> int:
    """Rebuild what `verify` finds wrong and can be derived; return how many findings that mends."""
    findings = [finding async for finding in verify(tenant) if finding.repairable]
    found = {finding.check for finding in findings}
    if "file" in found:
        await tenant.write(_rebuild_indexes)
    if "jobs" in found:
        await tenant.write(_release_jobs)
    if found & {"counters", "sequences"}:
        await _mend_sizes(tenant)
    if found & {"counters", "memories"}:
        await _mend_memories(tenant)
    # A conversation's length decides its windows, so their words come after it.
    if found & {"words", "sequences", "documents"}:
        await rebuild_words(tenant)
    # Chunks are removed by the words they have.
    if "documents" in found:
        await _mend_documents(tenant)
    # A message's length decides whether its vectors cover it.
    if "vectors" in found:
        await tenant.write(mend_vectors)
    if found & {"counters", "sequences", "vectors", "documents"}:
        await tenant.write(_recount)
    return len(findings)


def _rebuild_indexes(tx: Transaction) -> None:
    tx.connection.execute(_SQL["rebuild_indexes"])


def _release_jobs(tx: Transaction) -> None:
    tx.execute(_SQL["delete_nameless_jobs"])
    tx.execute(_SQL["release_odd_jobs"])
    add_state(tx)
    drop_abandoned(tx)


async def _mend_sizes(tenant: Tenant) -> None:
    faults = await tenant.read(_wrong_sizes)
    await tenant.write(partial(_store_sizes, faults=faults))


def _wrong_sizes(tx: Transaction) -> list[WrongLength | WrongBytes]:
    return [fault for fault in check_messages(tx) if isinstance(fault, WrongLength | WrongBytes)]


def _store_sizes(tx: Transaction, *, faults: Sequence[WrongLength | WrongBytes]) -> None:
    tx.execute(_SQL["recount_messages"])
    tx.execute(_SQL["recount_empty"])
    for fault in faults:
        match fault:
            case WrongLength():
                tx.execute(_SQL["mend_length"], key=fault.key, characters=fault.characters)
            case WrongBytes():
                tx.execute(_SQL["mend_bytes"], conversation=fault.conversation, excess=fault.excess)


async def _mend_memories(tenant: Tenant) -> None:
    # Every text is read for this, so it is done before the write lock is held.
    faults = await tenant.read(
        lambda tx: [
            fault for fault in check_memories(tx) if isinstance(fault, WrongLabels | WrongTextBytes)
        ]
    )

    def mend(tx: Transaction) -> None:
        for fault in faults:
            mend_memory(tx, fault)

    await tenant.write(mend)


async def _mend_documents(tenant: Tenant) -> None:
    # Every piece is read for this, so it is done before the write lock is held.
    faults = await tenant.read(lambda tx: list(check_documents(tx)))

    def mend(tx: Transaction, fault: DocumentFault) -> None:
        mend_document(tx, fault)

    for fault in faults:
        await tenant.write(partial(mend, fault=fault))


def _recount(tx: Transaction) -> None:
    true = dict(zip(COUNTER_NAMES, count_all(tx), strict=True))
    tx.execute(_SQL["forget_counters"])
    tx.execute(_SQL["count_anew"], **true)
