"""Find the compression dictionaries that any process has stored."""

from __future__ import annotations

import sqlite3

from engram.storage.sqlite.queries import load_queries
from engram.storage.sqlite.tenant import Tenant

_SQL = load_queries("dictionaries.sql")


def learn_dictionary(connection: sqlite3.Connection, tenant: Tenant, number: int) -> None:
    """Make a stored dictionary known to this process, if it is there."""
    row = tenant.execute(connection, _SQL["get_dictionary"], id=number).fetchone()
    if row is not None:
        tenant.codec.add_dictionary(number, row[0])
