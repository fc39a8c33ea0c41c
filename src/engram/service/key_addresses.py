"""Collects from which addresses keys are used, to be recorded off the requests' path."""

from __future__ import annotations

from datetime import datetime, timedelta

from engram import limits
from engram.clock import Clock
from engram.errors import EngramError
from engram.model.ids import KeyId
from engram.storage.control.store import ControlStore

REFRESH = timedelta(hours=1)
"""How long an address counts as recorded; then it is recorded again, so that it stays a recent one."""

_Pair = tuple[KeyId, str]


class KeyAddresses:
    """The pairs of key and address that this process saw since the last flush."""

    def __init__(self, control: ControlStore, clock: Clock) -> None:
        self._control = control
        self._clock = clock
        self._seen: dict[_Pair, datetime] = {}
        self._recorded: set[_Pair] = set()
        self._refresh_at = clock.now() + REFRESH

    def see(self, key_id: KeyId, address: str) -> None:
        """Note that a key was used from an address."""
        pair = (key_id, address)
        if pair in self._recorded or len(self._seen) >= limits.AUDIT_PENDING_MAX:
            # Past the bound it is seen at its next use after a flush.
            return
        self._seen[pair] = self._clock.now()

    async def flush(self) -> None:
        """Record the pairs; those that cannot be recorded now are kept for the next time."""
        seen, self._seen = self._seen, {}
        if not seen:
            return
        try:
            await self._control.note_addresses(_by_key(seen))
        except EngramError:
            self._seen = seen | self._seen
            raise
        self._remember(seen)

    def _remember(self, seen: dict[_Pair, datetime]) -> None:
        now = self._clock.now()
        if now >= self._refresh_at or len(self._recorded) >= limits.KNOWN_CREDENTIALS_MAX:
            self._recorded.clear()
            self._refresh_at = now + REFRESH
        self._recorded.update(seen)


def _by_key(seen: dict[_Pair, datetime]) -> dict[KeyId, dict[str, datetime]]:
    by_key = dict[KeyId, dict[str, datetime]]()
    for (key_id, address), at in seen.items():
        by_key.setdefault(key_id, {})[address] = at
    return by_key
