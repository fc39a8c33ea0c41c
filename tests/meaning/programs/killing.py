"""Two child processes at work at once, of which one after the other is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import IO

from engram.model.ids import OrganizationId

Work = Callable[[str, OrganizationId, int], Awaitable[None]]
"""What a process of some generation does without end; it tells every step."""


def tell() -> None:
    """Say that another step was reached."""
    os.write(sys.stdout.fileno(), b"step\n")


@dataclass(frozen=True, slots=True)
class Child:
    """A process at work, and its steps."""

    process: int
    steps: IO[str]

    def kill_after(self, steps: int) -> None:
        """Kill the process somewhere after so many steps."""
        with self.steps:
            told = [self.steps.readline() for _ in range(steps)]
            os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)
        if told != ["step\n"] * steps:
            raise AssertionError("a process ended by itself")


def keep_killing(work: Work, arguments: Sequence[str], *, steps_max: int) -> None:
    """Keep two processes at work, and kill the older one again and again.

    The arguments are a store's place, an organisation, and how many to kill.
    """
    place, organization, kills = arguments
    moments = random.Random(0)  # noqa: S311 - moments, not secrets
    organization_id = OrganizationId(organization)
    older = _start(work, place, organization_id, 0)
    for generation in range(1, int(kills)):
        newer = _start(work, place, organization_id, generation)
        older.kill_after(moments.randrange(1, steps_max))
        older = newer
    older.kill_after(moments.randrange(1, steps_max))


def _start(work: Work, place: str, organization_id: OrganizationId, generation: int) -> Child:
    """Return a new process at work."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, sys.stdout.fileno())
        asyncio.run(_run(work, place, organization_id, generation))
        os._exit(1)
    os.close(write_end)
    return Child(child, os.fdopen(read_end))


async def _run(work: Work, place: str, organization_id: OrganizationId, generation: int) -> None:
    await work(place, organization_id, generation)
