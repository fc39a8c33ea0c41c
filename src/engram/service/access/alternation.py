"""Alternation of an organisation's searches and appends, in small groups while both kinds come.

Both need the interpreter. A search gives it up some sixty times, and beside four busy writers it waits
behind one of their appends each time; beside sixteen searches an append hardly gets it at all. In
groups, which have it to themselves, each kind waits for one group of the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

from engram import limits
from engram.model.ids import OrganizationId

Kind: TypeAlias = Literal["search", "append"]

_OTHER: Mapping[Kind, Kind] = {"search": "append", "append": "search"}


class _Group:
    """Searches or appends that have the interpreter to themselves."""

    __slots__ = ("admitted", "at_work", "kind")

    def __init__(self, kind: Kind, *, admitted: int = 0) -> None:
        self.kind: Kind = kind
        self.admitted = admitted
        self.at_work = 0


class _Line:
    """The searches and appends of one organisation: the present group, and those that wait."""

    def __init__(self, *, group_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._group_s = group_s
        self._group = _Group("search")
        self._left_at: dict[Kind, float] = {}
        """When one of a kind ended last."""
        self._waiting: dict[Kind, deque[asyncio.Future[_Group]]] = {
            "search": deque(),
            "append": deque(),
        }

    @property
    def is_idle(self) -> bool:
        return not (self._group.at_work or any(self._waiting.values()))

    async def enter(self, kind: Kind) -> _Group:
        """Return the group that one more is part of, as soon as there is room in one."""
        if not self._waiting[kind] and self._has_room(kind):
            return self._admit(kind)
        admitted: asyncio.Future[_Group] = self._loop.create_future()
        self._waiting[kind].append(admitted)
        self._watch_group()
        try:
            return await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._waiting[kind].remove(admitted)
                self._admit_waiting()
            else:
                # It was let in a moment before.
                self.leave(admitted.result())
            raise

    def leave(self, group: _Group) -> None:
        """End one of a group, and let in who waits."""
        group.at_work -= 1
        self._left_at[group.kind] = self._loop.time()
        self._admit_waiting()

    def _has_room(self, kind: Kind) -> bool:
        group, other = self._group, _OTHER[kind]
        if group.kind != kind:
            return group.at_work == 0
        together = self._together(kind)
        if group.admitted < together:
            return True
        # Those just answered often come back at once, and should find one group at work, not everybody.
        return not self._waiting[other] and (
            group.at_work < together or not self._left_lately(other)
        )

    def _together(self, kind: Kind) -> int:
        """Return how many of a kind begin before the other has its turn."""
        if kind == "search":
            return limits.SEARCHES_TOGETHER
        is_crowd = len(self._waiting["search"]) > 1
        return limits.APPENDS_TOGETHER if is_crowd else limits.APPENDS_BESIDE_ONE

    def _left_lately(self, kind: Kind) -> bool:
        left_at = self._left_at.get(kind)
        return left_at is not None and self._loop.time() - left_at < self._group_s

    def _admit(self, kind: Kind) -> _Group:
        if self._group.kind != kind or not self._group.at_work:
            self._group = _Group(kind)
            if any(self._waiting.values()):
                self._watch_group()
        self._group.admitted += 1
        self._group.at_work += 1
        return self._group

    def _watch_group(self) -> None:
        """Have the present group end in time: somebody waits for it."""
        self._loop.call_later(self._group_s, self._end_group, self._group)

    def _end_group(self, group: _Group) -> None:
        """Wait no longer for a group: one of it takes long by nature."""
        if group is self._group:
            self._group = _Group(group.kind, admitted=group.admitted)
            self._admit_waiting()

    def _admit_waiting(self) -> None:
        """Let in who may begin: the other kind first."""
        for kind in (_OTHER[self._group.kind], self._group.kind):
            waiting = deque(each for each in self._waiting[kind] if not each.done())
            while waiting and self._has_room(kind):
                admitted = waiting.popleft()
                self._waiting[kind].remove(admitted)
                admitted.set_result(self._admit(kind))


class Alternation:
    """The searches and appends of all organisations in one process."""

    def __init__(self, *, group_s: float = limits.ALTERNATION_GROUP_S) -> None:
        """Let a group keep the other kind waiting for at most `group_s` seconds."""
        self._group_s = group_s
        self._lines: dict[OrganizationId, _Line] = {}

    @property
    def is_idle(self) -> bool:
        """Return True if nobody is at work or waits."""
        return not self._lines

    @asynccontextmanager
    async def turn(self, organization_id: OrganizationId, kind: Kind) -> AsyncGenerator[None]:
        """Begin a search or an append when its group may, and be part of that in the block."""
        line = self._lines.setdefault(organization_id, _Line(group_s=self._group_s))
        try:
            group = await line.enter(kind)
            try:
                yield
            finally:
                line.leave(group)
        finally:
            if line.is_idle:
                self._lines.pop(organization_id, None)
