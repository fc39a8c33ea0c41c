"""Compare the vectors of an organisation, and what waits for vectors, with its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("checks/vectors.sql")
_FAULTS = (
    "bad_vectors",
    "broken_passages",
    "broken_instant_passages",
    "outdated_instants",
    "needless_waiting",
    "lost_messages",
)


def check_vectors(tx: Transaction) -> Iterator[str]:
    """Yield what is wrong with the vectors, in words."""
    for name in _FAULTS:
        # Rows are counted as they come: there may be as many as there are vectors.
        counts = Counter(fault for fault, *_ in tx.execute(_SQL[name]))
        yield from (f"{count} {fault}" for fault, count in counts.items())
    if not _is_state_sound(tx):
        yield "the state of the vectors is missing or behind them"


def newest_seq(tx: Transaction) -> int:
    """Return the number of the last change of vectors that has left a trace."""
    return tx.execute(_SQL["newest_seq"]).fetchone()[0]


def _is_state_sound(tx: Transaction) -> bool:
    newest = newest_seq(tx)
    row = tx.execute(_SQL["is_state_sound"], newest=newest).fetchone()
    return row is not None and bool(row[0])
