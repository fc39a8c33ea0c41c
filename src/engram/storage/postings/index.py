"""The interface of a word index: posting lists, and the lengths of messages.

It indexes the words that `engram.text.analyse` derives from each message, in two parts. Windows are not
indexed: their words follow from their messages.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engram import limits
from engram.storage.rows.database import Connection

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keys = NDArray[np.int64]


WORDS_LOST = "the state of the word index is lost: run `engram doctor --repair`"


class MessageWords(NamedTuple):
    """The words of a stored message, joined by spaces."""

    key: int
    telling: str
    """Those that are not stop words; windows are found by these alone."""
    stops: str
    """Stop words."""

    @property
    def characters(self) -> int:
        """Return the characters of the words, for bounds of memory."""
        return len(self.telling) + len(self.stops)

    @property
    def telling_words(self) -> int:
        """Return the number of words that are not stop words."""
        return self.telling.count(" ") + 1 if self.telling else 0


class WordLengths(NamedTuple):
    """The number of words of a message, in its two parts."""

    key: int
    telling: int
    stops: int


class Growth(NamedTuple):
    """What was added to an index up to a revision."""

    conversations: Collection[int]
    """Those that have new messages."""
    keys: Keys
    """Messages whose lengths are known by this: those of `lengths` exist, others do not."""
    lengths: Keys
    """Rows of key, words that tell something and all words; other messages may be among them."""


class WordStatistics(NamedTuple):
    """Totals of the searched texts, for BM25."""

    texts: int
    words: int
    """In all texts together."""


class Postings(NamedTuple):
    """Posting lists of some terms: arrays with one entry for each term and message."""

    terms: Keys
    """The index of the term in the request, ascending."""
    keys: Keys
    counts: Keys

    def by_term(self, terms: Sequence[str]) -> dict[str, PostingList]:
        """Return the posting list of each of the terms that were asked for."""
        import numpy as np  # noqa: PLC0415 a store that is not searched does without

        bounds = self.terms.searchsorted(np.arange(len(terms) + 1)).tolist()
        return {
            term: PostingList(self.keys[start:end], self.counts[start:end])
            for term, start, end in zip(terms, bounds, bounds[1:], strict=False)
        }

    @classmethod
    def joined(cls, lists: Sequence[PostingList]) -> Postings:
        """Return the posting lists of one term after the other."""
        import numpy as np  # noqa: PLC0415 as above

        none = np.empty(0, dtype=np.int64)
        return cls(
            terms=np.arange(len(lists)).repeat([len(each.keys) for each in lists]),
            keys=np.concatenate([none, *(each.keys for each in lists)]),
            counts=np.concatenate([none, *(each.counts for each in lists)]),
        )


class PostingList(NamedTuple):
    """The postings of one term: an entry for each message."""

    keys: Keys
    counts: Keys

    def sorted(self) -> list[tuple[int, int]]:
        """Return key and count of each message, in the order of the keys."""
        return sorted(zip(self.keys.tolist(), self.counts.tolist(), strict=True))


pack_owner = struct.Struct("<qI").pack
"""Returns key and number of entries of a message as bytes; `Owners` reads them."""


def tail_words_due(words: int) -> int:
    """Return from how many words on the tail of an index is merged, given the words of all of it."""
    return min(max(words // limits.TAIL_SHARE, limits.TAIL_WORDS_MIN), limits.TAIL_WORDS_MAX)


class WordCheck(Protocol):
    """A comparison of the index with the messages."""

    def expect(self, rows: Iterable[MessageWords]) -> None:
        """Add messages that should be in the index."""
        ...

    def faults(self) -> Iterable[str]:
        """Describe the differences, once all messages have been expected."""
        ...


_CHECKSUM_MASK = (1 << 64) - 1


def describe_faults(
    *, missing: int, surplus: int, wrong: int, is_miscounted: bool, checksums: tuple[int, int]
) -> Iterator[str]:
    """Describe how an index differs from the messages, given counts and the two checksums."""
    for count, what in (
        (missing, "are missing from"),
        (surplus, "should not be in"),
        (wrong, "have another number of words in"),
    ):
        if count:
            yield f"{count} messages {what} the word index"
    if is_miscounted:
        yield "the word index miscounts its rows or words"
    expected, stored = checksums
    if (expected - stored) & _CHECKSUM_MASK:
        yield "the word index holds other words than the messages"


class WordIndex(Protocol):
    """The words of an organisation's messages.

    A second index can be built beside the present one: `is_next` selects it, and `take_over` makes it
    the one that is searched.
    """

    def add(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        """Add messages that are not in the index."""
        ...

    def remove(
        self,
        connection: Connection,
        rows: Iterable[MessageWords],
        *,
        organization_id: int,
        is_next: bool = False,
    ) -> None:
        """Remove messages, given with the same words they were added with."""
        ...

    def merge_due(self, size: int) -> int:
        """Return from which size of the tail on it is merged, given that of the index, as `State` has them."""
        ...

    def merge(self, connection: Connection, *, organization_id: int) -> bool:
        """Move what was added last, or a part of it, to where searches find it fastest; return True if there is more."""
        ...

    def unpacked(self, connection: Connection, *, organization_id: int) -> Sequence[str] | None:
        """Return the words whose posting lists `pack` should pack, the longest first; None if it is not time."""
        ...

    def pack(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Sequence[str]:
        """Pack the posting lists of the first of the terms; return the terms that are left.

        Without any left, `unpacked` returns None until the index has grown.
        """
        ...

    def begin_next(self, connection: Connection, *, organization_id: int) -> None:
        """Begin an empty index beside the present one, and drop any that was begun before."""
        ...

    def take_over(self, connection: Connection, *, organization_id: int) -> None:
        """Replace the present index by the one that was built."""
        ...

    def drop_next(self, connection: Connection, *, organization_id: int) -> None:
        """Drop the index being built, if there is one."""
        ...

    def statistics(self, connection: Connection, *, organization_id: int) -> WordStatistics:
        """Return the number of indexed messages, and of their words."""
        ...

    def count(self, connection: Connection, *, organization_id: int) -> int:
        """Return the number of indexed messages, by counting them."""
        ...

    def postings(
        self, connection: Connection, terms: Sequence[str], *, organization_id: int
    ) -> Postings:
        """Return the posting lists of terms; one that `is_prefix` matches all words that begin with it."""
        ...

    def expect(
        self,
        connection: Connection,
        terms: Sequence[str],
        *,
        revision: int,
        missing: Sequence[str],
        organization_id: int,
    ) -> None:
        """Prepare for the statistics, and for the posting lists of `terms`.

        If the index is still at `revision`, only those of `missing` will be asked for.
        """
        ...

    def grown(self, since: int, revision: int) -> Growth | None:
        """Return what was added between two revisions, as far as `postings` has read; None if that is not known."""
        ...

    def drop_cached(self) -> None:
        """Drop the words that this process has cached: some of them were erased."""
        ...

    def lengths(
        self, connection: Connection, keys: Sequence[int], *, organization_id: int
    ) -> Iterable[WordLengths]:
        """Return the lengths of those of the messages that are indexed, in any order."""
        ...

    def ask_lengths(
        self, connection: Connection, keys: Keys, *, organization_id: int
    ) -> Callable[[], Keys]:
        """Ask for the lengths of many messages; return what waits for them.

        They are rows of key, words that tell something and all words, in any order. Other messages may be
        among them. Words below 0 are of a message that does not exist.
        """
        ...

    def check(self, connection: Connection, *, organization_id: int) -> WordCheck:
        """Begin a comparison of the present index with the messages."""
        ...
