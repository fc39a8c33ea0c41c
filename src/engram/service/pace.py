"""How hard this process works on what nobody waits for while somebody waits for an answer.

A model keeps a core busy for seconds after a burst of messages, and answers come later for it. While
callers come, every stretch of such work is short and followed by a longer rest. It never stops: at
least a fifth of the time is its own.
"""

from __future__ import annotations

import asyncio

from engram.embedding.retry import Sleep
from engram.service.activity import Activity

RESTS = 4.0
"""A rest is so many times as long as the work before it."""

REST_MAX_S = 2.0
"""However long the work took: one long message is no reason to stay away for a minute."""

LOOK_S = 0.02
"""How often a rest looks whether callers still come."""


class Pace:
    """Makes room for callers between two stretches of background work."""

    def __init__(self, activity: Activity, *, sleep: Sleep = asyncio.sleep) -> None:
        self._activity = activity
        self._sleep = sleep
        self._seen = 0

    def is_asked(self) -> bool:
        """Say whether a caller waits, or has come since the last look."""
        begun, self._seen = self._seen, self._activity.begun
        return self._activity.in_flight > 0 or begun != self._seen

    async def rest(self, *, worked_s: float) -> None:
        """Stay away after work for as long as callers come, within bounds."""
        left_s = min(RESTS * worked_s, REST_MAX_S)
        while left_s > 0 and self.is_asked():
            await self._sleep(min(LOOK_S, left_s))
            left_s -= LOOK_S
