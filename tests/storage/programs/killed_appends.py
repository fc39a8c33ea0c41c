"""Append in child processes that are killed at random moments, and list what they acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from typing import NoReturn

from engram.clock import SystemClock
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.ids import OrganizationId
from tests.storage.places import store_at

WRITERS = 3


async def append_forever(place: str, organization_id: OrganizationId, name: str) -> None:
    """Append without end; write each text to standard output once it is acknowledged."""
    store = store_at(place, clock=SystemClock())
    await store.open()
    organization = await store.organization(organization_id)

    async def append(writer: int) -> None:
        number = 0
        while True:
            text = f"{name} writer {writer} message {number}"
            request = AppendRequest(messages=(MessageDraft(role="user", content=text),))
            await organization.append_messages(request, actor="local", quota=Quota())
            os.write(sys.stdout.fileno(), f"{text}\n".encode())
            number += 1

    await asyncio.gather(*[append(writer) for writer in range(WRITERS)])


def run_child(place: str, organization_id: OrganizationId, name: str) -> NoReturn:
    """Be the process that gets killed."""
    asyncio.run(append_forever(place, organization_id, name))
    os._exit(1)


def main(place: str, organization_id: str, kills: str) -> None:
    """Fork, wait for some acknowledgements, kill; pass on every acknowledgement that came."""
    moments = random.Random(0)  # noqa: S311 - moments, not secrets
    for number in range(int(kills)):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(write_end, sys.stdout.fileno())
            run_child(place, OrganizationId(organization_id), f"child {number}")
        os.close(write_end)
        with os.fdopen(read_end) as acknowledged:
            lines = [acknowledged.readline() for _ in range(moments.randrange(1, 40))]
            os.kill(child, signal.SIGKILL)
            # A line the child could not finish was not an answer.
            rest = [line for line in acknowledged if line.endswith("\n")]
        os.waitpid(child, 0)
        sys.stdout.writelines(lines + rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
