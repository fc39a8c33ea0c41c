"""Tables of numbers by the keys of messages or windows, for the caches of searches."""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from engram.limits import LENGTH_SLOTS_KEPT, ROW_FACTS_KEPT
from engram.model.row_keys import SEQUENCE_BITS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]

_NO_KEY = 2**63 - 1
_RECENT_SHARE = 64
_RECENT_MIN = 64
"""New entries are sorted in when they are more than one in `_RECENT_SHARE`, and than `_RECENT_MIN`."""
_EXTENT_BITS = 16
_EXTENT_MASK = (1 << _EXTENT_BITS) - 1
"""An extent has so many neighbouring keys of one conversation at most."""
_EXTENT_SLOTS_MIN = 2
"""Those of a memory, whose only message is the first."""


class NumberTable:
    """Rows of numbers by key, in sorted arrays; thread-safe."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._changing = Lock()
        self._sorted: SortedRows | None = None
        self._recent: SortedRows | None = None
        """Rows that are sorted in when there are enough of them."""

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where it is not cached."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        with self._changing:
            table, recent = self._sorted, self._recent
        if table is None:
            found: Keys = np.full((len(keys), self.width), -1, dtype=np.int64)
        else:
            found = table.look_up(keys)
        if recent is not None:
            missing: Keys = (found[:, 0] == -1).nonzero()[0]
            if len(missing):
                found[missing] = recent.look_up(keys.take(missing))
        return found

    def add(self, keys: Keys, numbers: Keys) -> None:
        """Add rows that will not change."""
        if not len(keys):
            return
        with self._changing:
            self._recent = SortedRows.merged(self._recent, keys, numbers)
            count = 0 if self._sorted is None else len(self._sorted.keys)
            if len(self._recent.keys) > max(count // _RECENT_SHARE, _RECENT_MIN):
                self._sort_in(self._recent)

    def replace(self, keys: Keys, numbers: Keys) -> None:
        """Set the rows of keys that may be there already; nobody may look them up meanwhile."""
        with self._changing:
            present = [rows for rows in (self._sorted, self._recent) if rows is not None]
        for rows in present:
            places = rows.keys.searchsorted(keys)
            is_here = rows.keys.take(places) == keys
            rows.numbers[places[is_here]] = numbers[is_here]
            keys, numbers = keys[~is_here], numbers[~is_here]
        self.add(keys, numbers)

    def without(self, conversations: Collection[int]) -> NumberTable:
        """Return a table without the messages or windows of some conversations."""
        other = NumberTable(self.width)
        with self._changing:
            other._sorted, other._recent = self._sorted, self._recent
        if other._sorted is not None:
            other._sorted = other._sorted.without(conversations)
        if other._recent is not None:
            other._recent = other._recent.without(conversations)
        return other

    def _sort_in(self, recent: SortedRows) -> None:
        old = self._sorted
        if old is not None and len(old.keys) + len(recent.keys) > ROW_FACTS_KEPT:
            old = None
        self._sorted = SortedRows.merged(old, recent.keys[:-1], recent.numbers[:-1])
        self._recent = None


class SortedRows(NamedTuple):
    """Keys in ascending order and a row of numbers for each; the last is of no key, and all -1."""

    keys: Keys
    numbers: Keys

    @classmethod
    def merged(cls, old: SortedRows | None, keys: Keys, numbers: Keys) -> SortedRows:
        """Return the rows with others added to them."""
        import numpy as np  # noqa: PLC0415 as above

        if old is None:
            nothing = np.full((1, numbers.shape[1]), -1, dtype=np.int64)
            old = cls(np.array([_NO_KEY], dtype=np.int64), nothing)
        keys = np.concatenate((keys, old.keys))
        order = keys.argsort(kind="stable")
        return cls(keys.take(order), np.concatenate((numbers, old.numbers)).take(order, axis=0))

    def without(self, conversations: Collection[int]) -> SortedRows:
        """Return the rows of other conversations."""
        import numpy as np  # noqa: PLC0415 as above

        left = self
        for number in conversations:
            bounds = (number << SEQUENCE_BITS, (number + 1) << SEQUENCE_BITS)
            first, end = left.keys.searchsorted(bounds)
            if first < end:
                gone = np.s_[first:end]
                left = SortedRows(np.delete(left.keys, gone), np.delete(left.numbers, gone, axis=0))
        return left

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where there is none."""
        places = self.keys.searchsorted(keys)
        places[self.keys.take(places) != keys] = len(self.keys) - 1
        return self.numbers.take(places, axis=0)


class SlotTable:
    """Rows of small numbers by key, an array element for each; thread-safe.

    Keys of a conversation have their rows beside each other in an *extent*, which has room up to the highest
    key that was added. A look-up searches once for a conversation instead of once for every key, which takes
    a fifth of the time for the thousands of keys of a search.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._changing = Lock()
        self._extents = NumberTable(2)
        """The first slot and the number of slots of each extent."""
        self._slots: NDArray[np.int32] | None = None
        self._used = 1
        """The first slot is of no key: -1."""

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where it is not cached."""
        import numpy as np  # noqa: PLC0415 as above

        with self._changing:
            if self._slots is None:
                return np.full((len(keys), self.width), -1, dtype=np.int64)
            return self._slots.take(self._places(keys), axis=0).astype(np.int64)

    def add(self, keys: Keys, numbers: Keys) -> None:
        """Add rows that will not change."""
        if not len(keys):
            return
        with self._changing:
            slots = self._reserve(keys)
            slots[self._places(keys)] = numbers

    def _places(self, keys: Keys) -> Keys:
        """Return the slot of each key; 0 where its extent has none."""
        from engram.vectors.arrays import run_lengths, run_starts  # noqa: PLC0415 as above

        owners = keys >> _EXTENT_BITS
        starts = run_starts(owners)
        lengths = run_lengths(starts, len(keys))
        extents = self._extents.look_up(owners.take(starts))
        offsets = keys & _EXTENT_MASK
        places: Keys = extents[:, 0].repeat(lengths) + offsets
        places[offsets >= extents[:, 1].repeat(lengths)] = 0
        return places

    def _reserve(self, keys: Keys) -> NDArray[np.int32]:
        """Make room for keys, and return all slots; those cached are dropped when they are too many."""
        owners, wanted = _slots_wanted(keys)
        extents = self._extents.look_up(owners)
        grows = wanted > extents[:, 1]
        owners, wanted, former = owners[grows], wanted[grows], extents[grows]
        if self._used + int(wanted.sum()) > LENGTH_SLOTS_KEPT and self._used > 1:
            self._extents, self._used = NumberTable(2), 1
            return self._reserve(keys)
        return self._allocate(owners, wanted, former)

    def _allocate(self, owners: Keys, wanted: Keys, former: Keys) -> NDArray[np.int32]:
        """Give extents new slots, with what their former ones contain; return all slots."""
        import numpy as np  # noqa: PLC0415 as above

        ends = self._used + wanted.cumsum()
        firsts = ends - wanted
        used = int(ends[-1]) if len(ends) else self._used
        slots = self._slots = _resized(self._slots, used, width=self.width, kept=self._used)
        self._used = used
        for first, (start, size) in zip(firsts.tolist(), former.tolist(), strict=True):
            if size > 0:
                slots[first : first + size] = slots[start : start + size]
        self._extents.replace(owners, np.stack((firsts, wanted), axis=1))
        return slots


def _slots_wanted(keys: Keys) -> tuple[Keys, Keys]:
    """Return the extents of keys, and how many slots each needs: powers of two, so that few grow often."""
    import numpy as np  # noqa: PLC0415 as above

    from engram.vectors.arrays import run_starts  # noqa: PLC0415 as above

    ordered = np.sort(keys)
    owners = ordered >> _EXTENT_BITS
    starts = run_starts(owners)
    lasts = np.append(starts[1:], len(ordered)) - 1
    highest = ordered.take(lasts) & _EXTENT_MASK
    wanted = np.left_shift(1, np.frexp(highest.astype(np.float64))[1].astype(np.int64))
    return owners.take(starts), np.maximum(wanted, _EXTENT_SLOTS_MIN)


def _resized(
    slots: NDArray[np.int32] | None, size: int, *, width: int, kept: int
) -> NDArray[np.int32]:
    """Return slots with room for `size`, the first `kept` as they are and the others of no key."""
    import numpy as np  # noqa: PLC0415 as above

    if slots is not None and len(slots) >= size:
        slots[kept:size] = -1
        return slots
    larger = np.full((2 * size, width), -1, dtype=np.int32)
    if slots is not None:
        larger[:kept] = slots[:kept]
    return larger
