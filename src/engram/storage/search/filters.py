"""Turn the filters of a search into the keys that it may find.

A kind is a range of numbers, so a search of one kind needs no query to know its keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.clock import to_microseconds
from engram.model.row_keys import KIND_BITS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.model.search import KINDS, Kind, SearchFilters
from engram.storage.conversations.records import expect_readable, find_readable
from engram.storage.memories.reading import filter_values, memory_conditions
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.vectors.snapshot import Allowed, KeyRanges

_SQL = load_queries("search/filters.sql")
_MEMORIES = load_queries("memories/memories.sql")
_INDEXED = {"projects", "episode_id", "ids"}
_OF_CONVERSATIONS = {"agent_id": "has_agent", "project": "has_project", "tags": "has_tags"}
_OF_MESSAGES = {"role": "has_role", "since": "is_said_since", "before": "is_said_before"}
_KEY_BITS = KIND_BITS + SEQUENCE_BITS
_LAST_KEY = (len(KINDS) << _KEY_BITS) - 1

Numbers = NDArray[np.int64]


def _none() -> Numbers:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordFilter:
    """Conditions on the number of a conversation or record; all of them must be met."""

    kinds: tuple[int, ...] | None = None
    """Ascending; None is all."""
    records: Numbers | None = None
    """One of these, ascending; None is any."""
    excluded: Numbers = field(default_factory=_none)
    """None of these, ascending."""

    @property
    def is_empty(self) -> bool:
        """Return True if every number meets them."""
        return self.kinds is None and self.records is None and not len(self.excluded)

    @property
    def values(self) -> dict[str, int]:
        """Return the values in `sql_of_message`."""
        if self.kinds is None:
            return {}
        kinds = self.kinds or (0,)
        return {
            "first_key": kinds[0] << _KEY_BITS,
            "last_key": (kinds[-1] + 1 << _KEY_BITS) - 1,
        }

    @property
    def sql_of_message(self) -> str:
        """Return a condition that skips most messages of other kinds."""
        return "" if self.kinds is None else _SQL["is_between"]

    def admits(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Return for each number whether it meets the conditions."""
        admitted = np.ones(len(numbers), dtype=np.bool_)
        if self.kinds is not None:
            admitted &= np.isin(numbers >> KIND_BITS, self.kinds)
        if self.records is not None:
            admitted &= np.isin(numbers, self.records)
        if len(self.excluded):
            admitted &= ~np.isin(numbers, self.excluded)
        return admitted

    def keys(self) -> Allowed | None:
        """Return the keys of all messages whose number meets the conditions; None is every key."""
        if self.is_empty:
            return None
        if self.records is not None:
            return _ranges_of(self.records[self.admits(self.records)])
        firsts, lasts = np.array([0]), np.array([_LAST_KEY])
        if self.kinds is not None:
            firsts = np.array(self.kinds, dtype=np.int64) << _KEY_BITS
            lasts = firsts + (1 << _KEY_BITS) - 1
        return _without(KeyRanges(firsts, lasts), self.excluded)


_EVERY_RECORD = RecordFilter()


def expect_filters(
    tx: Transaction, filters: SearchFilters, kinds: Sequence[Kind], *, now: int
) -> None:
    """Prepare for `read_record_filter`, and for `allowed_keys` unless that depends on its answer."""
    if not filters.memory.is_empty:
        given = filter_values(filters.memory)
        tx.ask_ahead(_matching(given), now=now, **given)
    elif _may_be_untimely(filters.admit(kinds)):
        tx.ask_ahead(_SQL["untimely_records"], now=now)
    values = _values(filters)
    of_conversation = _joined(_OF_CONVERSATIONS, values)
    if filters.conversation_id is not None:
        expect_readable(tx, filters.conversation_id)
    elif of_conversation and not _joined(_OF_MESSAGES, values):
        tx.ask_ahead(_with_conditions("allowed_conversations", of_conversation), **values)


def _may_be_untimely(kinds: Sequence[Kind]) -> bool:
    return bool(kinds) and tuple(kinds) != ("conversation",)


def read_record_filter(
    tx: Transaction,
    filters: SearchFilters,
    kinds: Sequence[Kind],
    *,
    now: int,
    leaving: Sequence[int] = (),
) -> RecordFilter:
    """Return which conversations and records may be found at the time `now`; none of `leaving`."""
    admitted = filters.admit(kinds)
    numbers = None if len(admitted) == len(KINDS) else tuple(map(KINDS.index, admitted))
    if not filters.memory.is_empty:
        given = filter_values(filters.memory)
        records = _numbers(tx, _matching(given), now=now, **given)
        return RecordFilter(kinds=numbers, records=records)
    excluded = np.sort(np.array(leaving, dtype=np.int64))
    if _may_be_untimely(admitted):
        # Numbers of records are above those of conversations.
        untimely = _numbers(tx, _SQL["untimely_records"], now=now)
        excluded = np.concatenate((excluded, untimely))
    return RecordFilter(kinds=numbers, excluded=excluded)


def allowed_keys(
    tx: Transaction, filters: SearchFilters, records: RecordFilter = _EVERY_RECORD
) -> Allowed | None:
    """Return the keys that pass both filters, as ranges where whole conversations do; None is all.

    Raises:
        NotFoundError: the filters name a conversation that does not exist.
    """
    values = _values(filters)
    of_conversation = _joined(_OF_CONVERSATIONS, values)
    in_conversation = ""
    if of_conversation:
        in_conversation = _SQL["is_in_conversations"].replace("/*conditions*/", of_conversation)
    if filters.conversation_id is not None:
        values["number"] = find_readable(tx, filters.conversation_id)
        of_conversation = f"{_SQL['is_conversation']} {of_conversation}"
        in_conversation = f"{_SQL['is_in_conversation']} {in_conversation}"
    of_message = _joined(_OF_MESSAGES, values)
    if of_message:
        conditions = f"{records.sql_of_message} {in_conversation} {of_message}"
        keys = _first_column(tx, "allowed_messages", conditions, values | records.values)
        return keys[records.admits(keys >> SEQUENCE_BITS)]
    if of_conversation:
        numbers = _first_column(tx, "allowed_conversations", of_conversation, values)
        return _ranges_of(numbers[records.admits(numbers)])
    return records.keys()


def _ranges_of(numbers: Numbers) -> KeyRanges:
    """Return the keys of all messages of some conversations or records, whose numbers ascend.

    Consecutive numbers make one range, because a search costs time for each range.
    """
    is_first = np.diff(numbers, prepend=-2) != 1
    is_last = np.diff(numbers, append=-2) != 1
    return KeyRanges(
        numbers[is_first] << SEQUENCE_BITS, (numbers[is_last] << SEQUENCE_BITS) + SEQUENCE_MASK
    )


def _without(ranges: KeyRanges, excluded: Numbers) -> KeyRanges:
    """Return the ranges without the keys of some records; each of these is in one range or none."""
    places = np.searchsorted(ranges.firsts, excluded << SEQUENCE_BITS, side="right") - 1
    within = (places >= 0) & (excluded << SEQUENCE_BITS <= ranges.lasts[places])
    holes = _ranges_of(excluded[within])
    firsts = np.sort(np.concatenate((ranges.firsts, holes.lasts + 1)))
    lasts = np.sort(np.concatenate((ranges.lasts, holes.firsts - 1)))
    return KeyRanges(firsts[firsts <= lasts], lasts[firsts <= lasts])


def _matching(given: Mapping[str, Any]) -> str:
    """Return the statement that finds the records which pass the filters given."""
    conditions = f"{_MEMORIES['is_in_time']} {memory_conditions(given)}"
    # Other filters have no index of their own, and an index that does not fit slows the scan down.
    indexed = "" if _INDEXED & given.keys() else "NOT INDEXED"
    statement = _SQL["matching_records"].replace("/*indexed*/", indexed)
    return statement.replace("/*conditions*/", conditions)


def _numbers(tx: Transaction, statement: str, **values: Any) -> Numbers:
    """Return the numbers in a comma-separated text, ascending."""
    (text,) = tx.execute(statement, **values).fetchone()
    return np.sort(np.fromstring(text, dtype=np.int64, sep=",")) if text else _none()


def _first_column(
    tx: Transaction, name: str, conditions: str, values: Mapping[str, Any]
) -> Numbers:
    rows = tx.execute(_with_conditions(name, conditions), **values)
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def _with_conditions(name: str, conditions: str) -> str:
    return _SQL[name].replace("/*conditions*/", conditions)


def _values(filters: SearchFilters) -> dict[str, Any]:
    values: dict[str, Any] = {
        "agent_id": filters.agent_id,
        "project": filters.project,
        "tags": json.dumps(filters.tags) if filters.tags else None,
        "role": filters.role,
        "since": filters.since and to_microseconds(filters.since),
        "before": filters.before and to_microseconds(filters.before),
    }
    return {name: value for name, value in values.items() if value is not None}


def _joined(conditions: Mapping[str, str], values: Mapping[str, Any]) -> str:
    return " ".join(_SQL[name] for field, name in conditions.items() if field in values)
