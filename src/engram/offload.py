"""Run work on texts that callers choose where it keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engram.limits import INLINE_CHARACTERS_MAX, LONG_TEXT_CHARACTERS

T = TypeVar("T")

# One thread: several that analyse megabytes at once would share the interpreter with every request.
_long_texts = ThreadPoolExecutor(max_workers=1, thread_name_prefix="engram-long-texts")


async def offload(work: Callable[[], T], *, characters: int) -> T:
    """Return what `work` returns: at once for short texts, else from a thread.

    A thread costs more than the work on a short text; the work on a long one would stop the event
    loop, and with it the requests of everybody else. Very long texts wait for each other.
    """
    if characters <= INLINE_CHARACTERS_MAX:
        return work()
    if characters <= LONG_TEXT_CHARACTERS:
        return await asyncio.to_thread(work)
    run = contextvars.copy_context().run
    return await asyncio.get_running_loop().run_in_executor(_long_texts, run, work)
