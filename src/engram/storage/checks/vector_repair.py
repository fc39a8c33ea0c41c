"""Remove vectors that are wrong, and let their messages wait for new ones."""

from __future__ import annotations

from engram.storage.checks.vectors import newest_seq
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_CHECK = load_queries("checks/vectors.sql")
_SQL = load_queries("checks/vector_repair.sql")

_STEPS = (
    ("delete_bad_vectors", "bad_vectors"),
    ("delete_bad_instant_vectors", "bad_vectors"),
    # A message that has lost a vector does not keep the others.
    ("delete_broken_passages", "broken_passages"),
    ("delete_instants", "broken_instant_passages"),
    ("delete_instants", "outdated_instants"),
    ("delete_waiting", "needless_waiting"),
    ("add_waiting", "lost_messages"),
)
_SEQS_SKIPPED = 1 << 32
"""More than a damaged state can have fallen behind what other processes have read."""


def mend_vectors(tx: Transaction) -> None:
    """Remove what is wrong, enqueue what lacks vectors, and have every process read all anew."""
    for change, found in _STEPS:
        statement = _SQL[change].replace("/*found*/", _CHECK[found].removesuffix(";"))
        tx.execute(statement)
    seq = newest_seq(tx) + _SEQS_SKIPPED
    tx.execute(_SQL["forget_state"])
    tx.execute(_SQL["add_state"], seq=seq)
