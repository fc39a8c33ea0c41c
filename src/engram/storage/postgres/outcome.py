"""Find out what has become of a transaction whose connection was lost while it was committed."""

from __future__ import annotations

from functools import partial
from time import monotonic, sleep

import psycopg

from engram import limits
from engram.errors import StoreUnavailableError
from engram.storage.postgres.failures import is_lost
from engram.storage.postgres.pool import Pool
from engram.storage.postgres.transactions import Begun, Scope

_LOOK_S = 0.02
_IN_DOUBT = "the database was lost while it stored this, which may be done or not"


def was_committed(pool: Pool, scope: Scope, begun: Begun) -> bool:
    """Ask the database, or the one that takes over from it, for as long as callers can wait.

    Raises:
        StoreUnavailableError: it does not say, so the work may be done or not.
    """
    deadline = monotonic() + limits.STORE_DOUBT_S
    while True:
        try:
            outcome = _ask(pool, scope, begun)
        except psycopg.Error as exc:
            if not is_lost(exc) or monotonic() > deadline:
                raise StoreUnavailableError(_IN_DOUBT) from exc
            sleep(_LOOK_S)
        else:
            break
    if outcome is None:
        raise StoreUnavailableError(_IN_DOUBT)
    return outcome


def _ask(pool: Pool, scope: Scope, begun: Begun) -> bool | None:
    driver, outcome = pool.begin(partial(scope.find_write, begun=begun))
    try:
        # What a server has after a crash need not be on its standbys yet. The question took a
        # lock, which makes this commit wait for them as that of a write does.
        driver.execute(b"COMMIT")
    finally:
        pool.give_back(driver)
    return outcome
