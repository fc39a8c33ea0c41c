"""Say which conversations and records a search may look at, by their numbers alone.

A kind is a range of numbers, so that a search of one kind reads nothing to know what it may find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.model.row_keys import KIND_BITS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.model.search import KINDS, Kind, SearchFilters
from engram.storage.memories.listing import filter_values, memory_conditions
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.vectors.snapshot import Allowed, KeyRanges

_SQL = load_queries("search/memories.sql")
_MEMORIES = load_queries("memories/memories.sql")
_INDEXED = {"projects", "episode_id", "ids"}
_KEY_BITS = KIND_BITS + SEQUENCE_BITS
_LAST_KEY = (len(KINDS) << _KEY_BITS) - 1

Numbers = NDArray[np.int64]


def _none() -> Numbers:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordFilter:
    """Conditions on the number of a conversation or record; all of them must hold."""

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
        """Return a condition on messages that leaves most others of other kinds unread."""
        return "" if self.kinds is None else _SQL["is_between"]

    def admits(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Say of each number whether it meets the conditions."""
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
            return ranges_of(self.records[self.admits(self.records)])
        firsts, lasts = np.array([0]), np.array([_LAST_KEY])
        if self.kinds is not None:
            firsts = np.array(self.kinds, dtype=np.int64) << _KEY_BITS
            lasts = firsts + (1 << _KEY_BITS) - 1
        return _without(KeyRanges(firsts, lasts), self.excluded)


EVERY_RECORD = RecordFilter()


def read_record_filter(
    connection: Connection,
    filters: SearchFilters,
    kinds: Sequence[Kind],
    *,
    organization_id: int,
    now: int,
) -> RecordFilter:
    """Return which conversations and records may be found at a moment."""
    admitted = filters.admit(kinds)
    numbers = None if len(admitted) == len(KINDS) else tuple(map(KINDS.index, admitted))
    scope = {"organization_id": organization_id, "now": now}
    if not filters.memory.is_empty:
        given = filter_values(filters.memory)
        records = _numbers(connection, _matching(given), {**scope, **given})
        return RecordFilter(kinds=numbers, records=records)
    if not admitted or admitted == ("conversation",):
        return RecordFilter(kinds=numbers)
    return RecordFilter(
        kinds=numbers, excluded=_numbers(connection, _SQL["untimely_records"], scope)
    )


def ranges_of(numbers: Numbers) -> KeyRanges:
    """Return the keys of all messages of some conversations or records, whose numbers ascend.

    Those that follow on each other make one range, because ranges are what a search pays for.
    """
    is_first = np.diff(numbers, prepend=-2) != 1
    is_last = np.diff(numbers, append=-2) != 1
    return KeyRanges(
        numbers[is_first] << SEQUENCE_BITS, (numbers[is_last] << SEQUENCE_BITS) + SEQUENCE_MASK
    )


def _without(ranges: KeyRanges, excluded: Numbers) -> KeyRanges:
    """Return the ranges without the keys of some records; each of these lies in one range or none."""
    places = np.searchsorted(ranges.firsts, excluded << SEQUENCE_BITS, side="right") - 1
    within = (places >= 0) & (excluded << SEQUENCE_BITS <= ranges.lasts[places])
    holes = ranges_of(excluded[within])
    firsts = np.sort(np.concatenate((ranges.firsts, holes.lasts + 1)))
    lasts = np.sort(np.concatenate((ranges.lasts, holes.firsts - 1)))
    return KeyRanges(firsts[firsts <= lasts], lasts[firsts <= lasts])


def _matching(given: Mapping[str, Any]) -> str:
    """Return the statement that finds the records which meet the filters given."""
    conditions = f"{_MEMORIES['is_in_time']} {memory_conditions(given)}"
    # No other filter has an index of its own, and one that finds nothing makes the scan slower.
    indexed = "" if _INDEXED & given.keys() else "NOT INDEXED"
    statement = _SQL["matching_records"].replace("/*indexed*/", indexed)
    return statement.replace("/*conditions*/", conditions)


def _numbers(connection: Connection, statement: str, values: Mapping[str, Any]) -> Numbers:
    """Return the numbers in a text, ascending."""
    (text,) = connection.execute(statement, values).fetchone()
    return np.sort(np.fromstring(text, dtype=np.int64, sep=",")) if text else _none()
