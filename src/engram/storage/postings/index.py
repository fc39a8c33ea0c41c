"""What the tables ask of an index of words: which messages hold a word, how often, and how long they are.

It holds of every message the words that `engram.text.analyse` made of it, in two parts, and nothing of
windows: what these hold follows from their messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engram.storage.rows.database import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]


class MessageWords(NamedTuple):
    """The words of a stored message, joined by spaces."""

    key: int
    telling: str
    """Those that windows are found by too."""
    stops: str
    """Stop words."""

    @property
    def characters(self) -> int:
        """Return how much memory the words take."""
        return len(self.telling) + len(self.stops)

    @property
    def telling_words(self) -> int:
        """Return how many words tell something."""
        return self.telling.count(" ") + 1 if self.telling else 0


class WordLengths(NamedTuple):
    """How many words a message has."""

    key: int
    telling: int
    stops: int


class WordStatistics(NamedTuple):
    """Of all texts that words are looked for in."""

    texts: int
    words: int
    """Of all texts together."""


class Postings(NamedTuple):
    """Which messages hold terms, and how often: arrays of one entry for each term and message."""

    terms: Keys
    """The place of the term among those asked for; these ascend."""
    keys: Keys
    counts: Keys


class WordCheck(Protocol):
    """A comparison of the index with what it should hold."""

    def expect(self, rows: Iterable[MessageWords]) -> None:
        """Take messages that should be there."""
        ...

    def faults(self) -> Iterable[str]:
        """Return what is wrong, in words, once all messages have been expected."""
        ...


class WordIndex(Protocol):
    """The words of an organisation's messages.

    A second index can be built beside the present one: `is_next` names it, and only `take_over` makes
    it the one that is searched.
    """

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        """Add messages that it does not hold."""
        ...

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        """Remove messages, given with the very words they were added with."""
        ...

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        """Begin an empty index beside the present one, in the place of any that was begun before."""
        ...

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        """Put the index that was built in the place of the present one."""
        ...

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        """Remove what was built so far, if there is any."""
        ...

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        """Return how many messages it holds, and how many words they have."""
        ...

    def count(self, connection: Connection, *, organization_id: int) -> int:
        """Return how many messages it holds, by counting them."""
        ...

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        """Return who holds the terms; one that `is_prefix` stands for all words that begin with it."""
        ...

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterable[WordLengths]:
        """Return the lengths of those of the messages that it holds, in any order."""
        ...

    def check(self, connection: Connection, *, organization_id: int) -> WordCheck:
        """Begin a comparison of the present index with what it should hold."""
        ...
