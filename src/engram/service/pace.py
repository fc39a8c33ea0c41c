"""How hard this process works on what nobody waits for while somebody waits for an answer.

A model keeps a core busy for seconds after a burst of messages, and answers come later for it. While
callers come, every stretch of such work is short and followed by a longer rest. It never stops: at
least a fifth of the time is its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.embedding.retry import Sleep
from engram.ingest.embed import PassageEmbedder
from engram.service.activity import Activity

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

RESTS = 4.0
"""A rest is so many times as long as the work before it."""

REST_MAX_S = 2.0
"""However long the work took: one long message is no reason to stay away for a minute."""

PASSAGES_TOGETHER = 16
"""Embedded between two rests: a long message has thousands, and they keep a core busy for minutes."""

LOOK_S = 0.02
"""How often a rest looks whether callers still come."""


class Pace:
    """Makes room for callers between two stretches of background work."""

    def __init__(self, activity: Activity, *, sleep: Sleep = asyncio.sleep) -> None:
        self._activity = activity
        self._sleep = sleep
        self._seen = 0

    def is_asked(self) -> bool:
        """Return True if a caller waits, or has come since the last look."""
        begun, self._seen = self._seen, self._activity.begun
        return self._activity.in_flight > 0 or begun != self._seen

    async def rest(self, *, worked_s: float) -> None:
        """Stay away after work for as long as callers come, within bounds."""
        left_s = min(RESTS * worked_s, REST_MAX_S)
        while left_s > 0 and self.is_asked():
            await self._sleep(min(LOOK_S, left_s))
            left_s -= LOOK_S


class PacedEmbedder:
    """An embedder of passages that rests between groups of them."""

    def __init__(self, embedder: PassageEmbedder, pace: Pace) -> None:
        self._embedder = embedder
        self._pace = pace

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage, as the embedder does."""
        import numpy as np  # noqa: PLC0415 slow to import

        time = asyncio.get_running_loop().time
        groups: list[Vectors] = []
        for start in range(0, max(len(passages), 1), PASSAGES_TOGETHER):
            began = time()
            group = passages[start : start + PASSAGES_TOGETHER]
            groups.append(await self._embedder.embed_passages(group))
            await self._pace.rest(worked_s=time() - began)
        return np.concatenate(groups)
