"""Run work on texts that callers choose where it keeps nobody else waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from engram.limits import INLINE_CHARACTERS_MAX

T = TypeVar("T")


async def offload(work: Callable[[], T], *, characters: int) -> T:
    """Return what `work` returns: at once for short texts, else from a thread.

    A thread costs more than the work on a short text; the work on a long one would stop the event
    loop, and with it the requests of everybody else.
    """
    if characters <= INLINE_CHARACTERS_MAX:
        return work()
    return await asyncio.to_thread(work)
