"""Short ways to import files in a test, and to read what was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engram.model.access import Principal
from engram.model.conversation import Conversation, ConversationQuery, Message, MessageQuery
from engram.service import Service
from engram.sources.batches import Choices
from engram.sources.importing import Report, find_files
from engram.sources.ledger import Ledger
from engram.sources.policy import Policy
from engram.sources.registry import SOURCES

POLICY = Policy(home=Path("/home/someone"))


def write_lines(path: Path, records: Iterable[object], *, torn: str = "") -> Path:
    """Write a file of JSON lines; `torn` is the beginning of a last one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records) + torn, encoding="utf-8")
    return path


def write_json(path: Path, value: object) -> Path:
    """Write a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Importer:
    """Imports files to one store, with its ledger."""

    service: Service
    me: Principal
    home: Path

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home, organization=self.me.organization_id)

    async def __call__(
        self,
        name: str,
        root: Path,
        *,
        reread: bool = False,
        policy: Policy = POLICY,
        **choices: Any,
    ) -> Report:
        """Import the files of a source below a directory, or one file."""
        source = SOURCES[name]
        return await self.service.importing.import_files(
            self.me,
            source,
            find_files(source, [root]),
            ledger=None if reread else self.ledger,
            choices=Choices(policy=policy, **choices),
        )

    async def conversations(self) -> Sequence[Conversation]:
        """Return all conversations, by title and session."""
        page = await self.service.conversations.list_conversations(
            self.me, ConversationQuery(limit=100)
        )
        return sorted(
            page.conversations, key=lambda each: (each.title or "", each.metadata["session"])
        )

    async def messages(self, conversation: Conversation) -> Sequence[Message]:
        """Return the messages of a conversation."""
        query = MessageQuery(conversation_id=conversation.id, message_limit=500)
        return (await self.service.conversations.get_conversation(self.me, query)).messages

    async def said(self) -> list[list[tuple[str, str]]]:
        """Return role and content of every message of every conversation."""
        return [
            [(message.role, message.content) for message in await self.messages(each)]
            for each in await self.conversations()
        ]

    async def everything(self) -> list[Any]:
        """Return all that is stored, to compare."""
        return [(each, await self.messages(each)) for each in await self.conversations()]


@pytest.fixture
def importer(service: Service, principal: Principal, tmp_path: Path) -> Importer:
    return Importer(service, principal, tmp_path / "store")
