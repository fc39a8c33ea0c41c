"""Compare the vectors of an organisation, and what waits for vectors, with its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant

_SQL = load_queries("checks/vectors.sql")
_FAULTS = (
    "bad_vectors",
    "broken_passages",
    "broken_instant_passages",
    "outdated_instants",
    "needless_waiting",
    "lost_messages",
)


def check_vectors(connection: Connection, tenant: Tenant) -> Iterator[str]:
    """Yield what is wrong with the vectors, in words."""
    for name in _FAULTS:
        # Rows are counted as they come: there may be as many as there are vectors.
        counts = Counter(fault for fault, *_ in tenant.execute(connection, _SQL[name]))
        yield from (f"{count} {fault}" for fault, count in counts.items())
    if not _is_state_sound(connection, tenant):
        yield "the state of the vectors is missing or behind them"


def newest_seq(connection: Connection, tenant: Tenant) -> int:
    """Return the number of the last change of vectors that has left a trace."""
    return tenant.execute(connection, _SQL["newest_seq"]).fetchone()[0]


def _is_state_sound(connection: Connection, tenant: Tenant) -> bool:
    newest = newest_seq(connection, tenant)
    row = tenant.execute(connection, _SQL["is_state_sound"], newest=newest).fetchone()
    return row is not None and bool(row[0])
