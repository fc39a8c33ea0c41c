"""Open a store together with other processes; append to the local organisation and search it."""

from __future__ import annotations

import asyncio
import sys

from engram.clock import SystemClock
from engram.errors import ConflictError
from engram.model.access import Organization, OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.storage.store import Store
from engram.text.analyse import query_terms
from tests.storage.finding import find_candidates
from tests.storage.places import store_at


async def main(place: str, name: str, rounds: str) -> None:
    """Append two messages a round, and expect to find them at once."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    organization = await local_organization(store)
    mine = await store.organization(organization.id)
    for number in range(int(rounds)):
        word = f"{name}number{number}"
        drafts = tuple(MessageDraft(role="user", content=f"{word} part {i}") for i in range(2))
        await mine.append_messages(AppendRequest(messages=drafts), actor="local", quota=Quota())
        found = await find_candidates(mine, query_terms(word))
        if (found.share_message > 0).sum() != 2:
            raise AssertionError(f"{word} is not found: {found}")
    await store.close()


async def local_organization(store: Store) -> Organization:
    """Return the local organisation; every process tries to create it, and one does."""
    try:
        draft = OrganizationDraft(name="local")
        return await store.control.create_organization(draft, actor="local", is_local=True)
    except ConflictError:
        found = await store.control.local_organization()
        if found is None:
            raise
        return found


if __name__ == "__main__":
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    asyncio.run(main(*sys.argv[1:]))
