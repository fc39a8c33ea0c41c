"""Append to many organisations at once in a process that may open few files."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections import Counter
from pathlib import Path

from engram.clock import RandomIds, SystemClock
from engram.errors import EngramError
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore


async def main(home: str, organizations: str, appends: str) -> None:
    """Print how many appends came to which end, as `stored 600`."""
    store = SqliteStore(Path(home), clock=SystemClock(), ids=RandomIds())
    await store.open()
    ends: Counter[str] = Counter()

    async def append(number: int) -> None:
        try:
            draft = OrganizationDraft(name=f"organisation {number}")
            made = await store.control.create_organization(draft, actor="test")
            opened = await store.organization(made.id)
            await asyncio.gather(*(append_one(opened) for _ in range(int(appends))))
        except EngramError as exc:
            ends[f"{exc.code}: {exc.message}"] += int(appends)

    async def append_one(opened: OrganizationStore) -> None:
        drafts = (MessageDraft(role="user", content="a word"),)
        try:
            await opened.append_messages(
                AppendRequest(messages=drafts), actor="test", quota=Quota()
            )
            ends["stored"] += 1
        except EngramError as exc:
            ends[f"{exc.code}: {exc.message}"] += 1

    await asyncio.gather(*map(append, range(int(organizations))))
    await store.close()
    for end, count in ends.items():
        sys.stdout.write(f"{end} {count}\n")


if __name__ == "__main__":
    files = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    asyncio.run(main(*sys.argv[2:]))
