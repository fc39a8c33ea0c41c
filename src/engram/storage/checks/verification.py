"""Prove that an organisation's store is whole: each check sees one snapshot and says what it found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from types import MappingProxyType

from engram.errors import StoreCorruptError
from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import position_of
from engram.model.status import CheckName, Finding
from engram.storage.bookkeeping.counters import COUNTER_NAMES
from engram.storage.bookkeeping.numbering import find_numbers_behind
from engram.storage.bookkeeping.stored_size import measure_all
from engram.storage.checks.documents import LostOfDocument, check_documents, describe_document_fault
from engram.storage.checks.memories import (
    Lost,
    WrongTextBytes,
    check_memories,
    describe_memory_fault,
)
from engram.storage.checks.messages import DamagedMessage, check_messages, describe
from engram.storage.checks.vectors import check_vectors
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import is_abandoned, read_versions
from engram.storage.words.rows import Stretch, batches_of_rows, words_in_windows


def check_words(tx: Transaction) -> Iterator[str]:
    """Yield what is wrong with the word index, in words."""
    check = tx.tenant.words.check(tx.connection, organization_id=tx.tenant.number)
    in_windows = 0
    for row in tx.execute(_SQL["conversation_lengths"]):
        stretch = Stretch(*row)
        for rows in batches_of_rows(tx, stretch, known=(), skip_damaged=True):
            check.expect(rows)
            in_windows += words_in_windows(rows, last_sequence=stretch.last_sequence)
    yield from check.faults()
    (said,) = tx.execute(_SQL["words_of_windows"]).fetchone() or (None,)
    if said != in_windows:
        yield f"windows are said to have {said} words, and have {in_windows}"


FINDINGS_MAX = 100
"""Of one check: a store with more faults than this is not mended by reading on."""

_SQL = load_queries("checks/verification.sql")
_CONVERSATIONS = load_queries("bookkeeping/counters.sql")

Check = Callable[[Transaction], Iterator[Finding]]


async def verify(tenant: Tenant) -> AsyncIterator[Finding]:
    """Yield everything that is wrong with the organisation's store."""
    for name, check in _CHECKS.items():
        try:
            findings = await tenant.read(partial(_run, name=name, check=check))
        except StoreCorruptError as exc:
            # SQLite itself stumbled: over an index that can be built anew, or over the file.
            yield _finding(tenant, name, exc.message, repairable=name == "words")
        else:
            for finding in findings:
                yield finding


def _run(tx: Transaction, *, name: CheckName, check: Check) -> list[Finding]:
    found = list(islice(check(tx), FINDINGS_MAX + 1))
    if len(found) <= FINDINGS_MAX:
        return found
    told = found[: FINDINGS_MAX - 1]
    message = f"there is more of this kind; the first {len(told)} are told"
    return [*told, _finding(tx.tenant, name, message, repairable=found[-1].repairable)]


def _finding(tenant: Tenant, check: CheckName, message: str, *, repairable: bool) -> Finding:
    return Finding(organization_id=tenant.id, check=check, message=message, repairable=repairable)


def _check_file(tx: Transaction) -> Iterator[Finding]:
    for (line,) in tx.connection.execute(_SQL["integrity"]):
        if line != "ok":
            is_derived = " index " in line or line.endswith((" in job", " in unembedded"))
            yield _finding(tx.tenant, "file", line, repairable=is_derived)
    for table, *_ in tx.connection.execute(_SQL["foreign_keys"]):
        message = f"a row of {table} refers to one that is missing"
        is_derived = table in ("vector", "instant_vector")
        yield _finding(tx.tenant, "file", message, repairable=is_derived)
    foreign = tx.execute(_SQL["foreign_rows"]).fetchone()[0]
    if foreign:
        message = f"{foreign} rows belong to another organisation"
        yield _finding(tx.tenant, "file", message, repairable=False)


def _check_hashes(tx: Transaction) -> Iterator[Finding]:
    for fault in check_messages(tx):
        is_damage = isinstance(fault, DamagedMessage)
        name: CheckName = "hashes" if is_damage else "counters"
        yield _finding(tx.tenant, name, describe(fault), repairable=not is_damage)


def _check_counters(tx: Transaction) -> Iterator[Finding]:
    row = tx.execute(_CONVERSATIONS["get_counters"]).fetchone()
    if row is None:
        yield _finding(tx.tenant, "counters", "the counters are missing", repairable=True)
        return
    true_row = count_all(tx)
    for name, said, true in zip(COUNTER_NAMES, row, true_row, strict=True):
        if said != true:
            message = f"the counter of {name} says {said}, and there are {true}"
            yield _finding(tx.tenant, "counters", message, repairable=True)


def count_all(tx: Transaction) -> tuple[int, ...]:
    """Return what the counters should say."""
    counted = tx.execute(_SQL["count_all"], length=WINDOW_MESSAGES, stride=WINDOW_STRIDE).fetchone()
    # Files are measured when they are written: the store does not see them.
    (file_bytes,) = tx.execute(_SQL["file_bytes"]).fetchone()
    return (*counted, measure_all(tx), file_bytes)


def _check_sequences(tx: Transaction) -> Iterator[Finding]:
    rows = tx.execute(_SQL["sequences"])
    for _, conversation_id, message_count, present, first, last in rows:
        if present and (position_of(first), position_of(last)) != (1, present):
            message = f"{conversation_id} has gaps: {present} messages up to {position_of(last)}"
            yield _finding(tx.tenant, "sequences", message, repairable=False)
        elif present != message_count:
            message = f"{conversation_id} says {message_count} messages and has {present}"
            yield _finding(tx.tenant, "sequences", message, repairable=True)
    for number, messages in tx.execute(_SQL["stray_messages"]):
        message = f"{messages} messages belong to a conversation (number {number}) that is missing"
        yield _finding(tx.tenant, "sequences", message, repairable=False)


def _check_memories(tx: Transaction) -> Iterator[Finding]:
    for fault in check_memories(tx):
        name: CheckName = "counters" if isinstance(fault, WrongTextBytes) else "memories"
        is_mended = not isinstance(fault, Lost)
        yield _finding(tx.tenant, name, describe_memory_fault(fault), repairable=is_mended)


def _check_documents(tx: Transaction) -> Iterator[Finding]:
    for fault in check_documents(tx):
        is_mended = not isinstance(fault, LostOfDocument)
        message = describe_document_fault(fault)
        yield _finding(tx.tenant, "documents", message, repairable=is_mended)


def _check_words(tx: Transaction) -> Iterator[Finding]:
    for message in check_words(tx):
        yield _finding(tx.tenant, "words", message, repairable=True)


def _check_vectors(tx: Transaction) -> Iterator[Finding]:
    for message in check_vectors(tx):
        yield _finding(tx.tenant, "vectors", message, repairable=True)


def _check_jobs(tx: Transaction) -> Iterator[Finding]:
    for (job_id,) in tx.execute(_SQL["odd_jobs"]):
        yield _finding(tx.tenant, "jobs", f"{job_id} is in an impossible state", repairable=True)
    if read_versions(tx) is None:
        yield _finding(tx.tenant, "jobs", "the state of upkeep is missing", repairable=True)
    for kind, place in find_numbers_behind(tx).items():
        message = f"the next {kind} would get a number up to {place} that was given before"
        yield _finding(tx.tenant, "jobs", message, repairable=True)
    if is_abandoned(tx):
        yield _finding(tx.tenant, "jobs", "a reindex was begun and not finished", repairable=True)


_CHECKS: MappingProxyType[CheckName, Check] = MappingProxyType(
    {
        "file": _check_file,
        "hashes": _check_hashes,
        "sequences": _check_sequences,
        "memories": _check_memories,
        "documents": _check_documents,
        "counters": _check_counters,
        "words": _check_words,
        "vectors": _check_vectors,
        "jobs": _check_jobs,
    }
)
