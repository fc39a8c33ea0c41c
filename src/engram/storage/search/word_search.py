"""Find the messages that contain words of a query, each with its shares of both lexical legs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from engram.limits import WINDOW_MESSAGES, WINDOW_STRIDE
from engram.model.row_keys import SEQUENCE_MASK
from engram.storage.postings.caches import RowsAtRevision
from engram.storage.postings.scan import (
    Shares,
    WordScan,
    windows_holding,
)
from engram.storage.rows.database import RemoteConnection
from engram.storage.search.found import SearchState
from engram.storage.tenant import Transaction
from engram.vectors.arrays import are_among, distinct, run_starts
from engram.vectors.snapshot import Allowed, KeyRanges

_UNKNOWN_MAX = 100
"""Texts without a known length with which it can be told which may be among the best; else it is guessed."""

Keys = NDArray[np.int64]
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class WordMatches:
    """The best messages of both lexical legs and others asked about, ordered by key."""

    keys: Keys
    characters: Keys
    said_at: Keys
    are_documents: NDArray[np.bool_]
    messages: Values
    """The share of each message itself."""
    windows: Values
    """The share of its best window."""
    coverages: Values
    """The part of the query's weight that belongs to words of the message."""


def expect_words(tx: Transaction, terms: Sequence[str]) -> None:
    """Prepare for `search_words`."""
    tenant = tx.tenant
    tenant.posting_cache.expect(
        tx.connection, tenant.words, [*Counter(terms)], organization_id=tenant.number
    )


def search_words(
    tx: Transaction,
    terms: Sequence[str],
    *,
    state: SearchState,
    allowed: Allowed | None,
    limit: int,
    also: Keys,
) -> WordMatches:
    """Return the best `limit` messages of each lexical leg and those of `also`, united.

    Each comes with the shares of both legs, whichever of them proposed it. Messages that do not
    exist or are not `allowed` are left out; None allows all.
    """
    tenant, owner = tx.tenant, tx.tenant.number
    rows = tenant.row_cache.at(
        state.revision,
        partial(tenant.words.ask_lengths, tx.connection, organization_id=owner),
        tenant.words.grown,
    )
    postings = tenant.posting_cache.at(
        state.revision, tx.connection, tenant.words, organization_id=owner
    )

    def likely(unknown: int) -> Keys:
        """Return messages among which the best are, as far as that can be told before all lengths are known."""
        # The shortest text has the highest share, and so many messages or windows may stand before one of the best.
        is_few = unknown <= _UNKNOWN_MAX
        more = unknown if is_few else limit // WINDOW_STRIDE
        guessed = rows.guessed(1 if is_few else None)
        messages, windows = WordScan(postings, guessed, windows=state.windows).shares(
            Counter(terms)
        )
        if allowed is not None:
            messages = messages.only(_are_allowed(messages.keys, allowed))
        around = _around(windows, limit + more * WINDOW_STRIDE, allowed)
        return distinct(np.concatenate((messages.best(limit + more), around, also)))

    prepare = None
    if isinstance(tx.connection, RemoteConnection):
        prepare = partial(
            rows.read_together,
            tx.connection,
            also=also,
            likely=likely,
            organization_id=owner,
        )
    scan = WordScan(postings, rows, windows=state.windows, prepare=prepare)
    messages, windows = scan.shares(Counter(terms))
    if allowed is not None:
        messages = messages.only(_are_allowed(messages.keys, allowed))
    best = np.concatenate((messages.best(limit), also))
    keys, facts = _best_of_both(tx, rows, windows, best=best, allowed=allowed, limit=limit)
    return WordMatches(
        keys=keys,
        characters=facts[:, 0],
        said_at=facts[:, 1],
        are_documents=facts[:, 2] == 1,
        messages=messages.among(keys),
        windows=windows.among(np.array(windows_holding(keys))).max(axis=0),
        coverages=messages.coverages_among(keys),
    )


def _best_of_both(
    tx: Transaction,
    rows: RowsAtRevision,
    windows: Shares,
    *,
    best: Keys,
    allowed: Allowed | None,
    limit: int,
) -> tuple[Keys, Keys]:
    """Return the existing messages of `best` and `limit` of the best windows, and their facts.

    The facts are a message's characters, its time and whether it is a document.
    """
    wanted = limit
    while True:
        around = _around(windows, wanted, allowed)
        keys = distinct(np.concatenate((best, around)))
        facts = rows.messages(tx.connection, keys, organization_id=tx.tenant.number)
        exists = facts[:, 0] >= 0  # A missing message has negative facts.
        places = keys.searchsorted(around)
        places = places[exists.take(places)]
        if len(places) >= limit or len(around) < wanted:
            break
        wanted *= 2
    is_found = np.zeros(len(keys), dtype=np.bool_)
    is_found[keys.searchsorted(best)] = True
    is_found[places[:limit]] = True
    is_found &= exists
    return keys[is_found], facts[is_found]


def _around(windows: Shares, wanted: int, allowed: Allowed | None) -> Keys:
    """Return at least so many allowed messages of the best windows, or all; some may not exist."""
    tried = math.ceil(wanted / WINDOW_STRIDE)
    while True:
        around = _messages_of(windows.best(tried))
        if allowed is not None:
            around = around[_are_allowed(around, allowed)]
        if len(around) >= wanted or tried >= len(windows.keys):
            return around
        tried *= 2


def _are_allowed(keys: Keys, allowed: Allowed) -> NDArray[np.bool_]:
    """Return for each key whether it is allowed."""
    if not isinstance(allowed, KeyRanges):
        return are_among(keys, allowed)
    if not len(allowed.firsts):
        return np.zeros(len(keys), dtype=np.bool_)
    places = np.searchsorted(allowed.firsts, keys, side="right") - 1
    return (places >= 0) & (keys <= allowed.lasts[places])


def _messages_of(windows: Keys) -> Keys:
    """Return the messages of windows, each once, in the order of their first window.

    Some lie past the end of a conversation: its last window may be short.
    """
    firsts = (windows & ~SEQUENCE_MASK) + (windows & SEQUENCE_MASK) * WINDOW_STRIDE + 1
    messages = (firsts[:, np.newaxis] + np.arange(WINDOW_MESSAGES)).reshape(-1)
    order = np.argsort(messages, kind="stable")
    places = order.take(run_starts(messages.take(order)))
    return messages.take(np.sort(places))
