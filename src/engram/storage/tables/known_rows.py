"""Remembers numbers of messages and windows that never change, so that they are read once.

A message never changes, and neither does a window once it is complete. An entry may outlive what it
is about: nobody asks for what no index proposes.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from engram.limits import ROW_FACTS_KEPT
from engram.storage.tables.database import Connection
from engram.storage.tables.keys import key_of_word_row, word_rows
from engram.storage.tables.queries import load_queries
from engram.storage.tables.varints import read_varints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]

_SQL = load_queries("words.sql")
_RECENT_SHARE = 64
"""One entry in so many may be kept aside before all are sorted again."""

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
                found[missing] = _rows_for(keys[missing], recent, width=self._width)
        return found

    def remember(self, facts: dict[int, Facts]) -> None:
        """Keep what never changes."""
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
        self._message_words = Remembered(1)
        self._window_words = Remembered(1)
        self._messages = Remembered(3)

    def message_lengths(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return how many words each message is found by; -1 where there is none."""
        return _completed(
            self._message_words,
            keys,
            lambda missing: _read_lengths(connection, "message_lengths", missing, organization_id),
        )[:, 0]

    def window_lengths(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return how many words each window is found by; -1 where there is none."""
        return _completed(
            self._window_words,
            keys,
            lambda missing: _read_lengths(connection, "window_lengths", missing, organization_id),
        )[:, 0]

    def messages(self, connection: Connection, keys: Keys, *, organization_id: int) -> Keys:
        """Return of each message the characters, the moment, and whether it is a document.

        All are -1 where there is none.
        """

        def read(missing: Keys) -> Iterable[tuple[int, Facts, bool]]:
            values = {"keys": str(missing.tolist()), "organization_id": organization_id}
            rows = connection.execute(_SQL["message_facts"], values)
            return ((key, tuple(facts), True) for key, *facts in rows)

        return _completed(self._messages, keys, read)


def _completed(
    remembered: Remembered, keys: Keys, read: Callable[[Keys], Iterable[tuple[int, Facts, bool]]]
) -> Keys:
    """Return what is known of each key, after reading what is not."""

    found = remembered.look_up(keys)
    missing = (found[:, 0] < 0).nonzero()[0]
    if not len(missing):
        return found
    rows = list(read(keys[missing]))
    remembered.remember({key: facts for key, facts, is_final in rows if is_final})
    now = {key: facts for key, facts, _ in rows}
    found[missing] = _rows_for(keys[missing], now, width=found.shape[1])
    return found


def _rows_for(keys: Keys, facts: Mapping[int, Facts], *, width: int) -> list[Facts]:
    nothing: Facts = (-1,) * width
    return [facts.get(key, nothing) for key in keys.tolist()]


def _read_lengths(
    connection: Connection, name: str, keys: Keys, organization_id: int
) -> Iterable[tuple[int, Facts, bool]]:
    values = {"rows": str(word_rows(keys).tolist()), "organization_id": organization_id}
    for row, size, is_final in connection.execute(_SQL[name], values):
        yield key_of_word_row(row), (read_varints(size)[0],), bool(is_final)
