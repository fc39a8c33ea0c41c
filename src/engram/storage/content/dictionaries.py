"""Keep the compression dictionaries, themselves compressed, where every process finds them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import zstandard

from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("content/dictionaries.sql")
_LEVEL = 19


def learn_dictionary(tx: Transaction, number: int) -> None:
    """Make a stored dictionary known to this process, if it is there."""
    row = tx.execute(_SQL["get_dictionary"], id=number).fetchone()
    # A dictionary that is missing or damaged shows in the messages that need it.
    if row is not None:
        with suppress(zstandard.ZstdError):
            tx.tenant.codec.add_dictionary(number, zstandard.decompress(row[0]))


async def learn_awaited(tenant: Tenant) -> None:
    """Make the newest dictionary known that other processes were seen to use."""
    if (number := tenant.codec.awaited_dictionary) is not None:
        await tenant.read(partial(learn_dictionary, number=number))


def pack_dictionary(content: bytes) -> bytes:
    """Return a dictionary as it is stored."""
    return zstandard.compress(content, level=_LEVEL)
