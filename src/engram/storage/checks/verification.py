"""Verify that an organisation's store is complete and consistent; each check reads one snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from types import MappingProxyType

from engram.errors import StoreCorruptError
from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import SEQUENCE_BITS, message_key, position_of
from engram.model.status import CheckName, Finding
from engram.storage.bookkeeping.counters import COUNTER_NAMES, measure_all
from engram.storage.bookkeeping.row_hashes import (
    HASHED_TABLES,
    IS_CHANGED,
    MESSAGE,
    HashedRow,
    HashedTable,
    read_rows,
)
from engram.storage.bookkeeping.state import find_numbers_behind
from engram.storage.checks.documents import check_documents
from engram.storage.checks.faults import Fault
from engram.storage.checks.memories import check_memories
from engram.storage.codec import ContentError
from engram.storage.content.messages import decode_text, read_conversation_ids
from engram.storage.content.pieces import PIECE
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.trash.rows import damaged_parts
from engram.storage.words.rebuild import is_abandoned, read_versions
from engram.storage.words.rows import Stretch, batches_of_rows, words_in_windows

FINDINGS_MAX = 100
"""Reported by one check: nobody repairs a store with more faults than this one by one."""

_SQL = load_queries("checks/verification.sql")
_COUNTERS = load_queries("bookkeeping/counters.sql")
_REPAIR = load_queries("checks/repair.sql")
_VECTORS = load_queries("checks/vectors.sql")
_VECTOR_FAULTS = (
    "bad_vectors",
    "broken_passages",
    "broken_instant_passages",
    "outdated_instants",
    "needless_waiting",
    "lost_messages",
)

Check = Callable[[Transaction], Iterator[Fault]]


async def verify(tenant: Tenant) -> AsyncIterator[Finding]:
    """Yield everything that is wrong with the organisation's store."""
    for name, check in _CHECKS.items():
        try:
            faults = await tenant.read(partial(_run, name=name, check=check))
        except StoreCorruptError as exc:
            # SQLite itself failed, on an index that can be rebuilt or on the file.
            faults = [Fault(name, exc.message, is_repairable=name == "words")]
        for fault in faults:
            yield Finding(
                organization_id=tenant.id,
                check=fault.check,
                message=fault.message,
                repairable=fault.is_repairable,
            )


def _run(tx: Transaction, *, name: CheckName, check: Check) -> list[Fault]:
    found = list(islice(check(tx), FINDINGS_MAX + 1))
    if len(found) <= FINDINGS_MAX:
        return found
    told = found[: FINDINGS_MAX - 1]
    message = f"there is more of this kind; the first {len(told)} are told"
    return [*told, Fault(name, message, is_repairable=found[-1].is_repairable)]


def _check_file(tx: Transaction) -> Iterator[Fault]:
    for (line,) in tx.connection.execute(_SQL["integrity"]):
        if line != "ok":
            is_derived = " index " in line or line.endswith((" in job", " in unembedded"))
            yield Fault("file", line, is_repairable=is_derived)
    for table, *_ in tx.connection.execute(_SQL["foreign_keys"]):
        is_derived = table in ("vector", "instant_vector")
        message = f"a row of {table} refers to one that is missing"
        yield Fault("file", message, is_repairable=is_derived)
    foreign = tx.execute(_SQL["foreign_rows"]).fetchone()[0]
    if foreign:
        yield Fault("file", f"{foreign} rows belong to another organisation")


def _check_hashes(tx: Transaction) -> Iterator[Fault]:
    yield from check_messages(tx)
    for table in HASHED_TABLES:
        for row in read_rows(tx, table):
            if not row.is_sound(tx.tenant.id):
                yield Fault("hashes", f"{_named(tx, table, row)} {IS_CHANGED}")
    for fault in damaged_parts(tx):
        yield Fault("hashes", fault)


def _named(tx: Transaction, table: HashedTable, row: HashedRow) -> str:
    """Return how a row is called in a finding."""
    if table is not MESSAGE:
        return row.name
    key = row.key["key"]
    ids = read_conversation_ids(tx, [key >> SEQUENCE_BITS])
    return f"message {position_of(key)} of {ids.get(key >> SEQUENCE_BITS, 'nothing')}"


def check_messages(tx: Transaction) -> Iterator[Fault]:
    """Yield the faults of messages: their texts, their lengths and the bytes of conversations."""
    conversations = tx.execute(_SQL["conversation_sizes"])
    for number, conversation_id, content_bytes in conversations:
        true_bytes, is_damaged = 0, False
        for fault, message_bytes in _read_messages(tx, number, conversation_id):
            true_bytes += message_bytes
            if fault is not None:
                is_damaged = is_damaged or not fault.is_repairable
                yield fault
        excess = content_bytes - true_bytes
        if excess and not is_damaged:
            yield Fault(
                "counters",
                f"{conversation_id} says {excess:+} bytes more than it has",
                is_repairable=True,
                repair=partial(_repair_bytes, conversation=number, excess=excess),
            )


def _read_messages(
    tx: Transaction, number: int, conversation_id: str
) -> Iterator[tuple[Fault | None, int]]:
    """Yield for each message its fault, if it has one, and its bytes."""
    rows = tx.execute(
        _SQL["messages_of"], first=message_key(number, 0), last=message_key(number + 1, 0) - 1
    )
    for key, characters, encoding, sha256, content in rows:
        named = f"message {position_of(key)} of {conversation_id}"
        try:
            text = decode_text(tx, content, encoding=encoding, sha256=sha256)
        except ContentError as exc:
            yield Fault("hashes", f"{named} cannot be read: {exc}"), 0
            continue
        fault = None
        if characters != len(text):
            fault = Fault(
                "counters",
                f"the length of {named} is wrong",
                is_repairable=True,
                repair=partial(_repair_length, key=key, characters=len(text)),
            )
        # The bytes of a chunk are counted with its document.
        yield fault, 0 if encoding == PIECE else len(text.encode())


def _repair_length(tx: Transaction, *, key: int, characters: int) -> None:
    tx.execute(_REPAIR["repair_length"], key=key, characters=characters)


def _repair_bytes(tx: Transaction, *, conversation: int, excess: int) -> None:
    tx.execute(_REPAIR["repair_bytes"], conversation=conversation, excess=excess)


def _check_counters(tx: Transaction) -> Iterator[Fault]:
    row = tx.execute(_COUNTERS["get_counters"]).fetchone()
    if row is None:
        yield Fault("counters", "the counters are missing", is_repairable=True)
        return
    for name, said, true in zip(COUNTER_NAMES, row, count_all(tx), strict=True):
        if said != true:
            message = f"the counter of {name} says {said}, and there are {true}"
            yield Fault("counters", message, is_repairable=True)


def count_all(tx: Transaction) -> tuple[int, ...]:
    """Return the true values of the counters."""
    counted = tx.execute(_SQL["count_all"], length=WINDOW_MESSAGES, stride=WINDOW_STRIDE).fetchone()
    # Files are measured when they are written: the store does not see them.
    (file_bytes,) = tx.execute(_SQL["file_bytes"]).fetchone()
    (trashed,) = tx.execute(_SQL["trashed_messages"]).fetchone()
    return (*counted, measure_all(tx), file_bytes, trashed)


def _check_sequences(tx: Transaction) -> Iterator[Fault]:
    rows = tx.execute(_SQL["sequences"])
    for _, conversation_id, message_count, present, first, last in rows:
        if present and (position_of(first), position_of(last)) != (1, present):
            message = f"{conversation_id} has gaps: {present} messages up to {position_of(last)}"
            yield Fault("sequences", message)
        elif present != message_count:
            message = f"{conversation_id} says {message_count} messages and has {present}"
            yield Fault("sequences", message, is_repairable=True)
    for number, messages in tx.execute(_SQL["stray_messages"]):
        message = f"{messages} messages belong to a conversation (number {number}) that is missing"
        yield Fault("sequences", message)


def _check_words(tx: Transaction) -> Iterator[Fault]:
    check = tx.tenant.words.check(tx.connection, organization_id=tx.tenant.number)
    in_windows = 0
    for row in tx.execute(_SQL["conversation_lengths"]):
        stretch = Stretch(*row)
        for rows in batches_of_rows(tx, stretch, known=(), skip_damaged=True):
            check.expect(rows)
            in_windows += words_in_windows(rows, last_sequence=stretch.last_sequence)
    for message in check.faults():
        yield Fault("words", message, is_repairable=True)
    (said,) = tx.execute(_SQL["words_of_windows"]).fetchone() or (None,)
    if said != in_windows:
        message = f"windows are said to have {said} words, and have {in_windows}"
        yield Fault("words", message, is_repairable=True)


def _check_vectors(tx: Transaction) -> Iterator[Fault]:
    for name in _VECTOR_FAULTS:
        # Counted one by one: there may be as many rows as there are vectors.
        counts = Counter(fault for fault, *_ in tx.execute(_VECTORS[name]))
        for fault, count in counts.items():
            yield Fault("vectors", f"{count} {fault}", is_repairable=True)
    row = tx.execute(_VECTORS["is_state_sound"], newest=newest_seq(tx)).fetchone()
    if row is None or not row[0]:
        message = "the state of the vectors is missing or behind them"
        yield Fault("vectors", message, is_repairable=True)


def newest_seq(tx: Transaction) -> int:
    """Return the number of the last change of vectors that is recorded in a row."""
    return tx.execute(_VECTORS["newest_seq"]).fetchone()[0]


def _check_jobs(tx: Transaction) -> Iterator[Fault]:
    found = [
        f"{job_id} is in an impossible state" for (job_id,) in tx.execute(_SQL["invalid_jobs"])
    ]
    if read_versions(tx) is None:
        found.append("the state of upkeep is missing")
    found += [
        f"the next {kind} would get a number up to {place} that was given before"
        for kind, place in find_numbers_behind(tx).items()
    ]
    if is_abandoned(tx):
        found.append("a reindex was begun and not finished")
    return (Fault("jobs", message, is_repairable=True) for message in found)


_CHECKS: MappingProxyType[CheckName, Check] = MappingProxyType(
    {
        "file": _check_file,
        "hashes": _check_hashes,
        "sequences": _check_sequences,
        "memories": check_memories,
        "documents": check_documents,
        "counters": _check_counters,
        "words": _check_words,
        "vectors": _check_vectors,
        "jobs": _check_jobs,
    }
)
