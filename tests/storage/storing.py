"""Every way in which an organisation stores something, each as one step of a test."""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from engram import limits
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
)
from engram.model.document import DocumentDraft
from engram.model.ids import ConversationId, DocumentId, EpisodeId, MemoryId
from engram.model.memory import Episode, Feedback, MemoryChange, MemoryDraft, MemoryOptions
from engram.model.trash import TrashQuery
from engram.storage.organization import OrganizationStore
from engram.transfer.memories import store_episode
from tests.fakes import FakeClock
from tests.storage.document_drafts import BOUNDS, PDF, claim
from tests.storage.document_drafts import index as index_document
from tests.storage.drafts import ACTOR
from tests.storage.memory_drafts import relation

PROJECTS = ("default", "grüße")


@dataclass
class Storing:
    """Does steps by name, with what earlier ones have left, under a quota."""

    organization: OrganizationStore
    clock: FakeClock
    quota: Quota = UNBOUNDED
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 - no secrets
    conversations: list[ConversationId] = field(default_factory=list[ConversationId])
    memories: list[MemoryId] = field(default_factory=list[MemoryId])
    episodes: list[EpisodeId] = field(default_factory=list[EpisodeId])
    uploads: list[tuple[DocumentId, int]] = field(default_factory=list[tuple[DocumentId, int]])
    converted: list[DocumentId] = field(default_factory=list[DocumentId])
    _number: itertools.count[int] = field(default_factory=itertools.count)

    async def do(self, name: str) -> None:
        """Do one step; one that needs what is not there does nothing."""
        step: Callable[[], Awaitable[None]] = getattr(self, name)
        await step()

    async def do_until_refused(self, name: str) -> None:
        """Do a step until it adds something: a correction may make a memory shorter, too."""
        for _ in range(20):
            await self.do(name)

    def text(self, longest: int = 300) -> str:
        """Return a text that nobody else has, in letters of several bytes."""
        return f"{next(self._number)} " + "ä" * self.chance.randrange(longest)

    async def create_conversation(self) -> None:
        draft = ConversationDraft(
            title=self.text(),
            agent_id="Agent ü",
            project=self.chance.choice(PROJECTS),
            tags=("a", self.text(20)),
            metadata={"note": self.text()},
        )
        created = await self.organization.create_conversation(draft, actor=ACTOR, quota=self.quota)
        self.conversations.append(created)

    async def append(self) -> None:
        message = MessageDraft(
            role="tool",
            content=self.text(),
            name="Zoë",
            tool_call_id="call",
            tool_name="grep",
            metadata={"why": self.text()},
        )
        to = self.chance.choice([None, *self.conversations])
        key = self.chance.choice([None, self.text(20), "often"])
        request = AppendRequest(
            messages=(message, MessageDraft(role="user", content=self.text())),
            conversation_id=to,
            idempotency_key=key,
        )
        await self.organization.append_messages(request, actor=ACTOR, quota=self.quota)

    async def store_memories(self) -> None:
        drafts = [
            MemoryDraft(
                content=self.text(),
                source="Büro",
                tags=("x", self.text(20)),
                project=self.chance.choice(PROJECTS),
                episode_id=self.chance.choice([None, *self.episodes]),
            )
            for _ in range(2)
        ]
        stored = await self.organization.memories.store(drafts, actor=ACTOR, quota=self.quota)
        self.memories += [each.id for each in stored]

    async def correct(self) -> None:
        if self.memories:
            content = self.chance.choice([None, self.text()])
            memory_id = await self._searched()
            if memory_id is not None:
                change = MemoryChange(content=content, tags=(self.text(20),))
                if not await self._is_document(memory_id):
                    await self.organization.memories.correct(
                        memory_id, change, actor=ACTOR, quota=self.quota
                    )

    async def summarize(self) -> None:
        if self.memories:
            await self.organization.memories.set_summary(
                self.chance.choice(self.memories), self.text(), actor=ACTOR, quota=self.quota
            )

    async def forget(self) -> None:
        if self.memories:
            await self.organization.memories.forget(
                self.chance.choice(self.memories),
                reason=self.text(),
                actor=ACTOR,
                now=self.clock.now(),
                quota=self.quota,
            )

    async def restore(self) -> None:
        if self.memories:
            await self.organization.memories.restore(
                self.chance.choice(self.memories), actor=ACTOR, quota=self.quota
            )

    async def connect(self) -> None:
        if len(self.memories) > 1:
            source, target = self.chance.sample(self.memories, 2)
            await self.organization.memories.connect(
                relation(source, target), actor=ACTOR, quota=self.quota
            )

    async def disconnect(self) -> None:
        if len(self.memories) > 1:
            source, target = self.chance.sample(self.memories, 2)
            await self.organization.memories.disconnect(source, target, "relates_to", actor=ACTOR)

    async def feedback(self) -> None:
        if self.memories:
            event_id = self.chance.choice([None, "event ö", self.text(20)])
            said = Feedback(
                memory_ids=tuple(self.memories[:3]),
                event_id=event_id,
                failure_class=None if event_id is None else "missing_content",
                helpful=False,
            )
            await self.organization.memories.record_feedback(said, actor=ACTOR, quota=self.quota)

    async def start_episode(self) -> None:
        started = await self.organization.memories.start_episode(
            self.chance.choice(PROJECTS), self.text(), actor=ACTOR, quota=self.quota
        )
        self.episodes.append(started)

    async def end_episode(self) -> None:
        if self.episodes:
            summary = self.chance.choice([None, self.text()])
            await self.organization.memories.end_episode(
                self.chance.choice(self.episodes), summary=summary, actor=ACTOR, quota=self.quota
            )

    async def import_episode(self) -> None:
        episode = Episode(
            id=EpisodeId(f"ep_{next(self._number):021}"),
            project="default",
            description=self.text(),
            started_at=self.clock.now(),
            ended_at=None,
            summary=self.text(),
            memories=0,
        )
        await store_episode(self.organization, episode, actor=ACTOR, quota=self.quota)

    async def begin_upload(self) -> None:
        draft = DocumentDraft(
            name=self.text(20),
            media_type=self.chance.choice(["text/plain", PDF]),
            options=MemoryOptions(tags=(self.text(20),), project=self.chance.choice(PROJECTS)),
        )
        begun = await self.organization.documents.begin_upload(
            draft, actor=ACTOR, limits=BOUNDS, quota=self.quota
        )
        self.uploads.append((begun.id, 0))

    async def add_part(self) -> None:
        if self.uploads:
            place = self.chance.randrange(len(self.uploads))
            document_id, part = self.uploads[place]
            await self.organization.documents.add_part(
                document_id, part, self.text(2_000).encode(), limits=BOUNDS, quota=self.quota
            )
            self.uploads[place] = (document_id, part + 1)

    async def finish_upload(self) -> None:
        begun = [each for each in self.uploads if each[1]]
        if begun:
            chosen = self.chance.choice(begun)
            self.uploads.remove(chosen)
            stored = await self.organization.documents.finish_upload(
                chosen[0], actor=ACTOR, quota=self.quota, limits=BOUNDS
            )
            self.memories.append(stored.document.memory_id)
            if stored.document.needs_text:
                self.converted.append(stored.document.id)
            else:
                await index_document(self.organization, stored.document.id)

    async def convert(self) -> None:
        if self.converted:
            document_id = self.converted.pop()
            await claim(self.organization, document_id)
            await self.organization.documents.put_text(
                document_id, [self.text(3_000).encode()], quota=self.quota
            )

    async def abort_upload(self) -> None:
        if self.uploads:
            document_id, _ = self.uploads.pop()
            await self.organization.documents.abort_upload(document_id)

    async def wait_a_day(self) -> None:
        self.clock.advance(timedelta(hours=limits.IDEMPOTENCY_HOURS + 1))
        await self.organization.documents.drop_expired_uploads()
        self.uploads.clear()

    async def delete_conversation(self) -> None:
        if self.conversations:
            await self.organization.delete_conversation(self.conversations.pop(), actor=ACTOR)

    async def purge(self) -> None:
        if self.memories:
            memory_id = self.memories.pop(self.chance.randrange(len(self.memories)))
            await self.organization.memories.purge(memory_id, actor=ACTOR)

    async def trash_conversation(self) -> None:
        if self.conversations:
            conversation_id = self.conversations.pop()
            await self.organization.trash.trash_conversation(
                conversation_id, actor=ACTOR, keep=timedelta(days=1)
            )

    async def trash_memory(self) -> None:
        if self.memories:
            memory_id = self.memories.pop(self.chance.randrange(len(self.memories)))
            await self.organization.trash.trash_memory(
                memory_id, actor=ACTOR, keep=timedelta(days=1)
            )

    async def restore_trashed(self) -> None:
        entries = (await self.organization.trash.list(TrashQuery())).entries
        for entry in entries[: self.chance.randrange(3)]:
            await self.organization.trash.restore(entry.id, actor=ACTOR)
            if entry.kind == "memory":
                self.memories.append(MemoryId(entry.id))
            else:
                self.conversations.append(ConversationId(entry.id))

    async def empty_trash(self) -> None:
        await self.organization.trash.empty(actor=ACTOR, limit=self.chance.randrange(1, 3))

    async def delete_project(self) -> None:
        await self.organization.memories.delete_project(PROJECTS[1], actor=ACTOR)
        left = await self.organization.memories.get(self.memories)
        self.memories = [each for each in self.memories if each in left]
        self.episodes = []

    async def delete_everything(self) -> None:
        """Remove all that can be removed."""
        page = await self.organization.list_conversations(ConversationQuery(limit=100))
        for conversation in page.conversations:
            await self.organization.delete_conversation(conversation.id, actor=ACTOR)
        while self.uploads:
            await self.abort_upload()
        for project in PROJECTS:
            await self.organization.memories.delete_project(project, actor=ACTOR)
        while (await self.organization.trash.empty(actor=ACTOR)).removed:
            pass

    async def _searched(self) -> MemoryId | None:
        found = await self.organization.memories.get(self.memories)
        searched = [each.id for each in found.values() if each.is_searched]
        return self.chance.choice(searched) if searched else None

    async def _is_document(self, memory_id: MemoryId) -> bool:
        return bool(await self.organization.documents.of_memories([memory_id]))


ADDING = (
    "create_conversation",
    "append",
    "store_memories",
    "correct",
    "summarize",
    "forget",
    "restore",
    "connect",
    "feedback",
    "start_episode",
    "end_episode",
    "import_episode",
    "begin_upload",
    "add_part",
    "finish_upload",
    "convert",
)
REMOVING = (
    "disconnect",
    "abort_upload",
    "wait_a_day",
    "delete_conversation",
    "purge",
    "trash_conversation",
    "trash_memory",
    "restore_trashed",
    "trash_memory",
    "empty_trash",
    "delete_project",
)
STEPS = ADDING + REMOVING
