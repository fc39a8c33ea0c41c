"""Clients that write without a pause, and know what was acknowledged."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from time import monotonic

import anyio

from engram.errors import StoreBusyError
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId, OrganizationId
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.postgres.servers import PATIENCE_S
from tests.storage.drafts import append, begin

_RETRY_S = 0.02
"""What a client waits that is told to try again: less than it is told, which would only take time."""

_PAGE = 500


class Writer:
    """One that appends numbered messages to a conversation of its own."""

    def __init__(self, store: Store, organization_id: OrganizationId, *, name: str) -> None:
        self._store = store
        self._organization_id = organization_id
        self._name = name
        self._conversation_id: ConversationId
        self.acknowledged: list[str] = []
        self.retries = 0
        self.last_begun = 0.0
        """When the attempt began that was acknowledged last."""

    async def prepare(self) -> None:
        """Begin the conversation."""
        self._conversation_id = await begin(await self._organization(), title=self._name)

    async def write(self) -> None:
        """Append a message, as often as it takes to have it acknowledged."""
        text = f"message {len(self.acknowledged) + 1} of {self._name}"
        while True:
            begun = monotonic()
            try:
                organization = await self._organization()
                await append(organization, text, to=self._conversation_id, key=text)
            except StoreBusyError:
                self.retries += 1
                await anyio.sleep(_RETRY_S)
            else:
                self.last_begun = begun
                self.acknowledged.append(text)
                return

    async def read(self) -> list[str]:
        """Return what the conversation says."""
        organization = await self._organization()
        texts = list[str]()
        for offset in itertools.count(0, _PAGE):
            query = MessageQuery(
                conversation_id=self._conversation_id, message_limit=_PAGE, message_offset=offset
            )
            page = (await organization.get_conversation(query)).messages
            texts += [message.content for message in page]
            if len(page) < _PAGE:
                return texts
        raise AssertionError

    async def _organization(self) -> OrganizationStore:
        return await self._store.organization(self._organization_id)


class Crowd:
    """Writers who all write while they are let."""

    def __init__(self, writers: Sequence[Writer]) -> None:
        self._writers = writers
        self._gate = asyncio.Event()
        self._is_over = False
        self._progress = asyncio.Condition()

    async def run(self) -> None:
        """Let everyone write, until `end`."""
        async with asyncio.TaskGroup() as tasks:
            for writer in self._writers:
                tasks.create_task(self._keep_writing(writer))

    def let_write(self) -> None:
        """Open the gate."""
        self._gate.set()

    def hold(self) -> None:
        """Have everyone wait behind the message that he is at."""
        self._gate.clear()

    def end(self) -> None:
        """Have everyone leave when the message that he is at is acknowledged."""
        self._is_over = True
        self._gate.set()

    async def until_anyone_wrote(self, *, since: float) -> None:
        """Return when a message was acknowledged that was sent after a moment."""
        await self._until(lambda: any(writer.last_begun > since for writer in self._writers))

    async def until_everyone_wrote(self, *, since: float) -> None:
        """Return when messages of all were acknowledged that were sent after a moment."""
        await self._until(lambda: all(writer.last_begun > since for writer in self._writers))

    async def _until(self, is_true: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE_S):
            async with self._progress:
                await self._progress.wait_for(is_true)

    async def _keep_writing(self, writer: Writer) -> None:
        while True:
            await self._gate.wait()
            if self._is_over:
                return
            await writer.write()
            async with self._progress:
                self._progress.notify_all()
