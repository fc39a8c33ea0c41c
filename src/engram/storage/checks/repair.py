"""Build anew what is derived from messages and found wrong; messages themselves are never changed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram.storage.bookkeeping.counters import COUNTER_NAMES
from engram.storage.checks.documents import (
    DocumentFault,
    check_documents,
    mend_document,
)
from engram.storage.checks.memories import (
    WrongLabels,
    WrongTextBytes,
    check_memories,
    mend_memory,
)
from engram.storage.checks.messages import WrongBytes, WrongLength, check_messages
from engram.storage.checks.vector_repair import mend_vectors
from engram.storage.checks.verification import count_all, verify
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant
from engram.storage.words.rebuild import add_state, drop_abandoned, rebuild_words

_SQL = load_queries("checks/repair.sql")


async def repair(tenant: Tenant) -> int:
    """Rebuild what `verify` finds wrong and can be derived; return how many findings that mends."""
    findings = [finding async for finding in verify(tenant) if finding.repairable]
    found = {finding.check for finding in findings}
    if "file" in found:
        await tenant.database.write(_rebuild_indexes)
    if "jobs" in found:
        await tenant.database.write(partial(_release_jobs, tenant=tenant))
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
        await tenant.database.write(partial(mend_vectors, tenant=tenant))
    if found & {"counters", "sequences", "vectors", "documents"}:
        await tenant.database.write(partial(_recount, tenant=tenant))
    return len(findings)


def _rebuild_indexes(connection: Connection) -> None:
    connection.execute(_SQL["rebuild_indexes"])


def _release_jobs(connection: Connection, *, tenant: Tenant) -> None:
    tenant.execute(connection, _SQL["delete_nameless_jobs"])
    tenant.execute(connection, _SQL["release_odd_jobs"])
    add_state(connection, tenant=tenant)
    drop_abandoned(connection, tenant=tenant)


async def _mend_sizes(tenant: Tenant) -> None:
    faults = await tenant.database.read(lambda connection: _wrong_sizes(connection, tenant))
    await tenant.database.write(partial(_store_sizes, tenant=tenant, faults=faults))


def _wrong_sizes(connection: Connection, tenant: Tenant) -> list[WrongLength | WrongBytes]:
    return [
        fault
        for fault in check_messages(connection, tenant)
        if isinstance(fault, WrongLength | WrongBytes)
    ]


def _store_sizes(
    connection: Connection, *, tenant: Tenant, faults: Sequence[WrongLength | WrongBytes]
) -> None:
    tenant.execute(connection, _SQL["recount_messages"])
    tenant.execute(connection, _SQL["recount_empty"])
    for fault in faults:
        match fault:
            case WrongLength():
                tenant.execute(
                    connection, _SQL["mend_length"], key=fault.key, characters=fault.characters
                )
            case WrongBytes():
                tenant.execute(
                    connection,
                    _SQL["mend_bytes"],
                    conversation=fault.conversation,
                    excess=fault.excess,
                )


async def _mend_memories(tenant: Tenant) -> None:
    # Every text is read for this, so it is done before the write lock is held.
    faults = await tenant.database.read(
        lambda connection: [
            fault
            for fault in check_memories(connection, tenant)
            if isinstance(fault, WrongLabels | WrongTextBytes)
        ]
    )

    def mend(connection: Connection) -> None:
        for fault in faults:
            mend_memory(connection, tenant, fault)

    await tenant.database.write(mend)


async def _mend_documents(tenant: Tenant) -> None:
    # Every piece is read for this, so it is done before the write lock is held.
    faults = await tenant.database.read(
        lambda connection: list(check_documents(connection, tenant))
    )

    def mend(connection: Connection, fault: DocumentFault) -> None:
        mend_document(connection, tenant, fault)

    for fault in faults:
        await tenant.database.write(partial(mend, fault=fault))


def _recount(connection: Connection, *, tenant: Tenant) -> None:
    true = dict(zip(COUNTER_NAMES, count_all(connection, tenant), strict=True))
    tenant.execute(connection, _SQL["forget_counters"])
    tenant.execute(connection, _SQL["count_anew"], **true)
