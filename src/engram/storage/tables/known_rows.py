"""Remembers numbers of messages and windows that never change, so that they are read once.

A message never changes, and neither does a window once it is complete. An entry may outlive what it
is about: nobody asks for what no index proposes.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engram.limits import ROW_FACTS_KEPT, WINDOW_MESSAGES, WINDOW_STRIDE
from engram.storage.tables.database import Connection
from engram.storage.tables.keys import KIND_BITS, KINDS, SEQUENCE_BITS
from engram.storage.tables.queries import load_queries
from engram.storage.tables.word_index import WordLengths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]
    ReadLengths = Callable[[Sequence[int]], Iterable[WordLengths]]

_SQL = load_queries("words.sql")
_RECENT_SHARE = 64
"""One entry in so many may be kept aside before all are sorted again."""

_SEQUENCE_MASK = (1 << SEQUENCE_BITS) - 1
_MEMORY = KINDS.index("memory")

Facts = tuple[int, ...]


class Remembered:
    """Numbers by key, as far as they were asked for; shared by all threads."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._changing = Lock()
        self._known: tuple[Keys, Keys] | None = None
        """Keys in ascending order, and a row of numbers for each."""
        self._recent: dict[int, Facts] = {}

    def look_up(self, keys: Keys) -> Keys:
        """Return a row for each key, of -1 where it is not known."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        with self._changing:
            known, recent = self._known, self._recent
        if known is None:
            found = np.full((len(keys), self._width), -1, dtype=np.int64)
        else:
            places = np.searchsorted(known[0], keys)
            found = known[1].take(places, axis=0, mode="clip")
            found[known[0].take(places, mode="clip") != keys] = -1
        if recent:
            missing = np.flatnonzero(found[:, 0] < 0)
            if len(missing):
                nothing: Facts = (-1,) * self._width
                found[missing] = [recent.get(key, nothing) for key in keys[missing].tolist()]
        return found

    def remember(self, facts: dict[int, Facts]) -> None:
        """Keep what never changes."""
        if not facts:
            return
        with self._changing:
            self._recent = {**self._recent, **facts}
            known = 0 if self._known is None else len(self._known[0])
            if len(self._recent) * _RECENT_SHARE > known:
                self._sort_in()

    def _sort_in(self) -> None:
        import numpy as np  # noqa: PLC0415 as above

        keys = np.fromiter(self._recent.keys(), dtype=np.int64)
        facts = np.array([*self._recent.values()], dtype=np.int64).reshape(-1, self._width)
        if self._known is not None and len(self._known[0]) + len(keys) <= ROW_FACTS_KEPT:
            keys = np.concatenate((self._known[0], keys))
            facts = np.concatenate((self._known[1], facts))
        order = np.argsort(keys, kind="stable")
        self._known = keys[order], facts[order]
        self._recent = {}


class KnownRows:
    """What a word search has to know of messages and windows of one organisation."""

    def __init__(self) -> None:
        self._lengths = Remembered(2)
        self._window_words = Remembered(1)
        self._messages = Remembered(3)

    def message_lengths(self, keys: Keys, read: ReadLengths) -> Keys:
        """Return how many words each message is found by; -1 where there is none."""
        return self._word_lengths(keys, read)[:, 1]

    def window_lengths(self, keys: Keys, read: ReadLengths) -> Keys:
        """Return how many words each window is found by; -1 where there is none."""
        found = self._window_words.look_up(keys)[:, 0]
        missing = (found < 0).nonzero()[0]
        if len(missing):
            found[missing] = self._add_up(keys[missing], read)
        return found

    def messages(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return of each message the characters, the moment, and whether it is a document.

        All are -1 where there is none.
        """

        def read_facts(missing: Sequence[int]) -> Iterable[tuple[int, ...]]:
            values = {"keys": str(missing), "organization_id": organization_id}
            return connection.execute(_SQL["message_facts"], values)

        return _completed(self._messages, keys, read_facts)

    def _word_lengths(self, keys: Keys, read: ReadLengths) -> Keys:
        """Return of each message how many words tell something, and how many there are."""

        def read_lengths(missing: Sequence[int]) -> Iterable[tuple[int, ...]]:
            return ((key, telling, telling + stops) for key, telling, stops in read(missing))

        return _completed(self._lengths, keys, read_lengths)

    def _add_up(self, windows: Keys, read: ReadLengths) -> Keys:
        """Return the lengths of windows from those of their messages."""
        import numpy as np  # noqa: PLC0415 as above

        conversations, numbers = windows & ~_SEQUENCE_MASK, windows & _SEQUENCE_MASK
        firsts = conversations + numbers * WINDOW_STRIDE + 1
        members = firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)
        words = self._word_lengths(members.reshape(-1), read)[:, 0].reshape(members.shape)
        is_there = words >= 0
        sums = np.where(is_there, words, 0).sum(axis=1)
        # Complete, or of a memory, which is one message.
        is_final = is_there.all(axis=1) | (windows >> SEQUENCE_BITS + KIND_BITS == _MEMORY)
        final = zip(windows[is_final].tolist(), sums[is_final].tolist(), strict=True)
        self._window_words.remember({key: (length,) for key, length in final})
        # A window begins when one message is past the end of the window before it.
        has_begun = is_there[:, WINDOW_MESSAGES - WINDOW_STRIDE] | (numbers == 0)
        return np.where(has_begun, sums, -1)


def _completed(
    remembered: Remembered, keys: Keys, read: Callable[[Sequence[int]], Iterable[tuple[int, ...]]]
) -> Keys:
    """Return what is known of each key, after reading what is not."""
    found = remembered.look_up(keys)
    missing = (found[:, 0] < 0).nonzero()[0]
    if not len(missing):
        return found
    asked = keys[missing].tolist()
    now = {key: tuple(facts) for key, *facts in read(asked)}
    remembered.remember(now)
    nothing: Facts = (-1,) * found.shape[1]
    found[missing] = [now.get(key, nothing) for key in asked]
    return found
