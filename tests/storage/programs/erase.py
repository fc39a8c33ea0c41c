"""Do the steps of an erasure, and say so after each; the process may be killed at any moment."""

from __future__ import annotations

import asyncio
import os
import sys

from engram.clock import SystemClock
from engram.model.ids import ErasureId, OrganizationId
from tests.storage.places import store_at


def tell(step: str) -> None:
    os.write(sys.stdout.fileno(), f"{step}\n".encode())


async def main(place: str, organization_id: str, erasure_id: str) -> None:
    store = store_at(place, clock=SystemClock())
    await store.open()
    organization = await store.organization(OrganizationId(organization_id))
    erasing, erasure = organization.erasing, ErasureId(erasure_id)
    tell("begins")
    await erasing.hide(erasure)
    tell("is hidden")
    while await erasing.remove_some(erasure):
        tell("has removed some")
    await erasing.replace_dictionaries()
    tell("has replaced dictionaries")
    await erasing.begin_rewriting(erasure, files=0)
    tell("writes anew")
    await erasing.rewrite(erasure)
    tell("is finished")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
