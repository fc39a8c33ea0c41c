"""Sessions of a client as the engine sees them: transcripts, records in the spool, and calls."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engram.engine.hooks import Hooks
from engram.hooks.events import record_of
from engram.hooks.spool import append
from engram.model.conversation import ConversationQuery, MessageQuery
from engram.model.ids import ConversationId
from engram.service import Service
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.hooks.payloads import payload, said, write_transcript


@dataclass
class Sessions:
    """Sessions in one directory, on one store."""

    service: Service
    hooks: Hooks
    settings: Settings
    directory: Path
    clock: FakeClock

    @property
    def work(self) -> Path:
        """Where the agent works."""
        return self.directory / "work"

    def transcript(self, session: str) -> Path:
        return self.directory / ".claude" / "projects" / "-work" / f"{session}.jsonl"

    def say(self, session: str, *texts: str, start: int = 0) -> None:
        """Let user and assistant take turns in a session."""
        roles = ("user", "assistant")
        lines = [
            said(session, start + number, roles[number % 2], text, directory=self.work)
            for number, text in enumerate(texts)
        ]
        write_transcript(self.transcript(session), *lines)

    def end_turn(self, session: str, event: str = "turn") -> None:
        """Leave a record in the spool, as a hook does."""
        given = payload(event, session, transcript=self.transcript(session), directory=self.work)
        record = record_of(event, "claude", given, at=0)
        assert record is not None
        append(str(self.settings.home), record)

    async def capture(self, session: str, *texts: str) -> None:
        self.say(session, *texts)
        self.end_turn(session)
        await self.hooks.drain()

    async def recall(self, event: str, session: str, prompt: str = "", **more: str) -> str:
        """Return what an agent is told at an event."""
        given = {"event": event, "session": session, "client": "claude", "cwd": str(self.work)}
        told = await self.hooks.recall({**given, "prompt": prompt, **more})
        self.hooks.confirm(told)
        return told.context

    async def stored(self) -> list[str]:
        """Return all messages of the store."""
        me = await self.service.access.local_principal()
        conversations = self.service.conversations
        page = await conversations.list_conversations(me, ConversationQuery(limit=100))
        return [text for each in page.conversations for text in await self.read(each.id)]

    async def read(self, conversation: str) -> list[str]:
        """Return the messages of a conversation, by its id or the beginning of it."""
        me = await self.service.access.local_principal()
        query = MessageQuery(conversation_id=ConversationId(conversation), message_limit=500)
        found = await self.service.conversations.get_conversation(me, query)
        return [message.content for message in found.messages]
