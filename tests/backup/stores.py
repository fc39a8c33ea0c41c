"""Stores that are backed up, and what a test does with them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from engram.backup.catalog import read_catalog
from engram.backup.creating import Made, create_backup, staging_in
from engram.backup.destination import Destination, DirectoryDestination
from engram.backup.restoring import restore_backup
from engram.clock import Clock, RandomIds, SystemClock
from engram.model.access import OrganizationDraft
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId, OrganizationId
from engram.storage.sqlite.snapshot import HeldStore, hold_store, put_mark
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, append, begin

if TYPE_CHECKING:
    from pyrage import AnyIdentity

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def opened(directory: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(directory, clock=SystemClock(), ids=RandomIds())
    try:
        await store.open()
        yield store
    finally:
        await store.close()


Conversation = tuple[OrganizationId, ConversationId]


async def begin_in_new(store: SqliteStore, *texts: str) -> Conversation:
    """Begin a conversation in a new organisation, and return both."""
    draft = OrganizationDraft(name=" ".join(texts))
    made = await store.control.create_organization(draft, actor=ACTOR)
    return made.id, await begin(await store.organization(made.id), *texts)


async def say(store: SqliteStore, conversation: Conversation, *texts: str) -> None:
    """Append messages to a conversation."""
    await append(await store.organization(conversation[0]), *texts, to=conversation[1])


async def faults(directory: Path) -> list[str]:
    """Return what `engram doctor` would say of a store."""
    async with opened(directory) as store:
        found = [finding.message for finding in await store.check_files()]
        for each in await store.control.list_organizations():
            organization = await store.organization(each.id)
            found += [finding.message async for finding in organization.verify()]
        return found


async def texts_of(
    directory: Path, organization_id: OrganizationId, conversation_id: ConversationId
) -> list[str]:
    """Return the messages of a conversation."""
    async with opened(directory) as store:
        organization = await store.organization(organization_id)
        texts = list[str]()
        while True:
            page = await organization.get_conversation(
                MessageQuery(
                    conversation_id=conversation_id, message_limit=500, message_offset=len(texts)
                )
            )
            texts.extend(message.content for message in page.messages)
            if not page.messages:
                return texts


class Backups:
    """The backups of one store in one destination, made at the minutes of a clock."""

    def __init__(self, home: Path, destination: Path | Destination) -> None:
        self.home = home
        self.clock = FakeClock()
        self.destination: Destination = (
            DirectoryDestination(destination) if isinstance(destination, Path) else destination
        )

    @contextmanager
    def held(self, clock: Clock | None = None) -> Generator[HeldStore]:
        self.clock.advance(MINUTE)
        with hold_store(self.home, clock=clock or self.clock) as held:
            yield held

    def make(
        self, *, recipients: Sequence[str] = (), full: bool = False, clock: Clock | None = None
    ) -> Made:
        with staging_in(self.home) as staging, self.held(clock) as held:
            return create_backup(
                held,
                self.destination,
                staging=staging,
                recipients=recipients,
                full=full,
                advance=lambda _: None,
            )

    def restore(
        self,
        target: Path,
        *,
        as_of: datetime | None = None,
        identities: Sequence[AnyIdentity] = (),
    ) -> None:
        restore_backup(
            read_catalog(self.destination).find(as_of),
            self.destination,
            target,
            identities=identities,
            put_mark=put_mark,
            advance=lambda _: None,
        )
