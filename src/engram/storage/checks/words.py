"""Compare the word index with what the messages, analysed again, would put into it."""

from __future__ import annotations

from collections.abc import Iterator

from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.words.rows import Stretch, batches_of_rows, words_in_windows

_SQL = load_queries("checks/verification.sql")


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
