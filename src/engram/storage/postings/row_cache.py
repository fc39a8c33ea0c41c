"""Cache of lengths, times and places of messages and windows: numbers that do not change.

A message never changes, and neither does a window once it is complete. An entry may outlive what it
is about: nobody asks for what no index proposes. That there is no such message, and what a window has
that may still grow, is true as long as the word index is the same.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engram.limits import ROW_FACTS_KEPT, WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import KIND_BITS, KINDS, SEQUENCE_BITS, SEQUENCE_MASK
from engram.storage.postings.index import WordLengths
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]
    ReadLengths = Callable[[Sequence[int]], Iterable[WordLengths]]

_SQL = load_queries("postings/postings.sql")
_RECENT_SHARE = 64
_RECENT_MIN = 64
"""One entry in so many may be kept aside before all are sorted again, and always as many as these."""

_MEMORY = KINDS.index("memory")
_NO_KEY = 2**63 - 1
_NOT_THERE = -2

Facts = tuple[int, ...]


class Remembered:
    """Rows of numbers by key; safe to use from several threads."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._changing = Lock()
        self._known: tuple[Keys, Keys] | None = None
        """Keys in ascending order, and a row of numbers for each."""
        self._recent: dict[int, Facts] = {}

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where it is not cached."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        with self._changing:
            known, recent = self._known, self._recent
        if known is None:
            found = np.full((len(keys), self._width), -1, dtype=np.int64)
        else:
            places = known[0].searchsorted(keys)
            # Whatever is not here has the place of the last row, which says so.
            places[known[0].take(places) != keys] = len(known[0]) - 1
            found = known[1].take(places, axis=0)
        if recent:
            missing = (found[:, 0] == -1).nonzero()[0]
            if len(missing):
                nothing: Facts = (-1,) * self._width
                found[missing] = [recent.get(key, nothing) for key in keys[missing].tolist()]
        return found

    def remember(self, facts: dict[int, Facts]) -> None:
        """Add rows that will not change."""
        if not facts:
            return
        with self._changing:
            self._recent = {**self._recent, **facts}
            known = 0 if self._known is None else len(self._known[0])
            if len(self._recent) > max(known // _RECENT_SHARE, _RECENT_MIN):
                self._sort_in()

    def _sort_in(self) -> None:
        import numpy as np  # noqa: PLC0415 as above

        keys = np.fromiter((*self._recent, _NO_KEY), dtype=np.int64)
        rows = [*self._recent.values(), (-1,) * self._width]
        facts = np.array(rows, dtype=np.int64).reshape(-1, self._width)
        if self._known is not None and len(self._known[0]) + len(keys) <= ROW_FACTS_KEPT:
            keys = np.concatenate((self._known[0][:-1], keys))
            facts = np.concatenate((self._known[1][:-1], facts))
        order = np.argsort(keys, kind="stable")
        self._known = keys[order], facts[order]
        self._recent = {}


class RowCache:
    """What scoring needs of the messages and windows of one organisation."""

    def __init__(self) -> None:
        self._lasting = _Remembered()
        self._passing = (-1, _Remembered())

    def at(self, revision: int, read: ReadLengths) -> RowsAtRevision:
        """Return what is known at a revision of the word index, which `read` asks."""
        known, passing = self._passing
        if known != revision:
            passing = _Remembered()
            self._passing = revision, passing
        return RowsAtRevision(self._lasting, passing, read)


class _Remembered:
    """Numbers of messages and windows."""

    def __init__(self) -> None:
        self.lengths = Remembered(2)
        self.windows = Remembered(1)
        self.messages = Remembered(3)


class RowsAtRevision:
    """What is known of rows, and can be asked, in one snapshot.

    What never changes is remembered for good; what is missing or still grows, for the revision.
    """

    def __init__(self, lasting: _Remembered, passing: _Remembered, read: ReadLengths) -> None:
        self._lasting = lasting
        self._passing = passing
        self._read = read

    def message_lengths(self, keys: Keys) -> Keys:
        """Return how many words each message is found by; below 0 where there is none."""
        return self._word_lengths(keys)[:, 1]

    def window_lengths(self, keys: Keys) -> Keys:
        """Return how many words each window is found by; below 0 where there is none."""
        found = self._lasting.windows.look_up(keys)[:, 0]
        missing = (found < 0).nonzero()[0]
        if len(missing):
            found[missing] = self._open_windows(keys[missing])
        return found

    def messages(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return of each message the characters, the moment, and whether it is a document.

        All are below 0 where there is none.
        """

        def read_facts(missing: Sequence[int]) -> Iterable[tuple[int, ...]]:
            values = {"keys": str(missing), "organization_id": organization_id}
            return connection.execute(_SQL["message_facts"], values)

        return _completed(self._lasting.messages, self._passing.messages, keys, read_facts)

    def _word_lengths(self, keys: Keys) -> Keys:
        """Return of each message how many words tell something, and how many there are."""

        def read_lengths(missing: Sequence[int]) -> Iterable[tuple[int, ...]]:
            return ((key, telling, telling + stops) for key, telling, stops in self._read(missing))

        return _completed(self._lasting.lengths, self._passing.lengths, keys, read_lengths)

    def _open_windows(self, windows: Keys) -> Keys:
        """Return the lengths of windows that may still grow."""
        found = self._passing.windows.look_up(windows)[:, 0]
        missing = (found == -1).nonzero()[0]
        if len(missing):
            found[missing] = self._add_up(windows[missing])
        return found

    def _add_up(self, windows: Keys) -> Keys:
        """Return the lengths of windows from those of their messages, and remember them."""
        import numpy as np  # noqa: PLC0415 as above

        conversations, numbers = windows & ~SEQUENCE_MASK, windows & SEQUENCE_MASK
        firsts = conversations + numbers * WINDOW_STRIDE + 1
        members = firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)
        words = self._word_lengths(members.reshape(-1))[:, 0].reshape(members.shape)
        is_there = words >= 0
        # A window begins when one message is past the end of the window before it.
        has_begun = is_there[:, WINDOW_MESSAGES - WINDOW_STRIDE] | (numbers == 0)
        sums = np.where(has_begun, np.where(is_there, words, 0).sum(axis=1), _NOT_THERE)
        # Complete, or of a memory, which is one message.
        is_final = is_there.all(axis=1) | (windows >> SEQUENCE_BITS + KIND_BITS == _MEMORY)
        for remembered, which in ((self._lasting, is_final), (self._passing, ~is_final)):
            pairs = zip(windows[which].tolist(), sums[which].tolist(), strict=True)
            remembered.windows.remember({key: (length,) for key, length in pairs})
        return sums


def _completed(
    lasting: Remembered,
    passing: Remembered,
    keys: Keys,
    read: Callable[[Sequence[int]], Iterable[tuple[int, ...]]],
) -> Keys:
    """Return what is known of each key, after reading what is not."""
    found = lasting.look_up(keys)
    missing = (found[:, 0] < 0).nonzero()[0]
    if len(missing):
        found[missing] = passing.look_up(keys[missing])
        missing = missing[found[missing, 0] == -1]
    if len(missing):
        asked = keys[missing].tolist()
        now: dict[int, Facts] = {key: tuple(facts) for key, *facts in read(asked)}
        nothing: Facts = (_NOT_THERE,) * found.shape[1]
        found[missing] = [now.get(key, nothing) for key in asked]
        lasting.remember(now)
        passing.remember({key: nothing for key in asked if key not in now})
    return found
