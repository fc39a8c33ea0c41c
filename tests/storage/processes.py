"""How programs are run on a store, and all that they have stored."""

from __future__ import annotations

import sys
from pathlib import Path

from engram.model.conversation import Message, MessageQuery
from engram.model.ids import ConversationId
from engram.storage.organization import OrganizationStore

PROJECT = Path(__file__).parents[2]
"""Where programs are run."""


async def all_messages(organization: OrganizationStore) -> list[Message]:
    """Return every message of the default conversation."""
    appended = await organization.list_audit(limit=1, before=None)
    conversation_id = ConversationId(appended[0].subject or "")
    messages: list[Message] = []
    while True:
        query = MessageQuery(
            conversation_id=conversation_id, message_limit=500, message_offset=len(messages)
        )
        page = await organization.get_conversation(query)
        messages.extend(page.messages)
        if not page.messages:
            return messages


def command(program: str, *arguments: object) -> list[str]:
    """Return the command that runs a program of `tests/storage/programs`."""
    module = f"tests.storage.programs.{program}"
    return [sys.executable, "-m", module, *map(str, arguments)]
