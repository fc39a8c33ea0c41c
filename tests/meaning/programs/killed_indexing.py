"""Append and index in two child processes at once, of which one after the other is killed."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, NoReturn

from engram.clock import RandomIds, SystemClock
from engram.embedding.tiers import Tiers
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from engram.service.batch import LEASE
from engram.service.indexing import Indexer
from engram.storage.sqlite.store import SqliteStore
from tests.meaning.hashing import QuickEmbedder, ToldEmbedder

MESSAGES = 24
STEPS_MAX = 16


class LaterClock(SystemClock):
    """The machine's clock, so much later that leases of processes killed before have ended."""

    def __init__(self, generation: int) -> None:
        self._later = generation * 2 * LEASE

    def now(self) -> datetime:
        return super().now() + self._later


async def work_forever(directory: Path, organization_id: OrganizationId, generation: int) -> None:
    """Append and index without end; write a line before and after every step."""
    store = SqliteStore(directory, clock=LaterClock(generation), ids=RandomIds())
    await store.open()
    tiers = Tiers.of(deep=ToldEmbedder(tell), instant=QuickEmbedder())
    indexer = Indexer(store, tiers, owner=f"generation {generation}")
    organization = await store.organization(organization_id)
    while True:
        drafts = tuple(draft(generation, number) for number in range(MESSAGES))
        tell()
        await organization.append_messages(
            AppendRequest(messages=drafts),
            actor="local",
            quota=Quota(),
            indexing=await indexer.index_new(drafts),
        )
        tell()
        await indexer.work(organization_id)


def draft(generation: int, number: int) -> MessageDraft:
    """Return a message; every fourth is so long that it has several passages."""
    words = 50 if number % 4 == 0 else 3
    text = " ".join(f"{generation}.{number}.{i}" for i in range(words))
    return MessageDraft(role="user", content=f"{text}.")


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


def start(directory: Path, organization_id: OrganizationId, generation: int) -> Child:
    """Return a new process at work."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_end, sys.stdout.fileno())
        be_killed(directory, organization_id, generation)
    os.close(write_end)
    return Child(child, os.fdopen(read_end))


def be_killed(directory: Path, organization_id: OrganizationId, generation: int) -> NoReturn:
    """Be the process that gets killed."""
    asyncio.run(work_forever(directory, organization_id, generation))
    os._exit(1)


def main(directory: str, organization_id: str, kills: str) -> None:
    """Keep two processes at work, and kill the older one again and again."""
    moments = random.Random(0)  # noqa: S311 - moments, not secrets
    place = Path(directory), OrganizationId(organization_id)
    older = start(*place, 0)
    for generation in range(1, int(kills)):
        newer = start(*place, generation)
        older.kill_after(moments.randrange(1, STEPS_MAX))
        older = newer
    older.kill_after(moments.randrange(1, STEPS_MAX))


if __name__ == "__main__":
    main(*sys.argv[1:])
