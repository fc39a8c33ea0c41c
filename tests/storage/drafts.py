"""Short ways to say what is stored in a test."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engram.clock import IdSource
from engram.model.access import Quota
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    ConversationDraft,
    Message,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.model.search import Candidates, SearchFilters
from engram.model.status import Finding
from engram.storage.organization import OrganizationStore
from engram.storage.rows.database import Connection
from engram.storage.store import Store
from tests.postgres.databases import present_database
from tests.postgres.raw_rows import opened_rows, refuse_rows
from tests.storage.finding import find_candidates

ACTOR = "key_test"
UNBOUNDED = Quota()
EVERYTHING = SearchFilters()

BuildStore = Callable[[IdSource], Store]
"""What opens the same data again, as another process would."""

on_sqlite = pytest.mark.parametrize("build_store", ["sqlite"], indirect=True)
"""For tests of what only files are or suffer."""


def drafts(*texts: str) -> tuple[MessageDraft, ...]:
    """Return messages of a user."""
    return tuple(MessageDraft(role="user", content=text) for text in texts)


async def begin(
    organization: OrganizationStore,
    *texts: str,
    title: str | None = None,
    agent_id: str | None = None,
    project: str = "default",
    tags: tuple[str, ...] = (),
) -> ConversationId:
    """Create a conversation of these messages and return its id."""
    draft = ConversationDraft(title=title, agent_id=agent_id, project=project, tags=tags)
    conversation_id = await organization.create_conversation(draft, actor=ACTOR)
    if texts:
        await append(organization, *texts, to=conversation_id)
    return conversation_id


async def append(
    organization: OrganizationStore,
    *texts: str,
    to: ConversationId | None = None,
    key: str | None = None,
    quota: Quota = UNBOUNDED,
) -> AppendReceipt:
    """Append messages of a user."""
    request = AppendRequest(messages=drafts(*texts), conversation_id=to, idempotency_key=key)
    return await organization.append_messages(request, actor=ACTOR, quota=quota)


async def read(
    organization: OrganizationStore, conversation_id: ConversationId
) -> tuple[Message, ...]:
    """Return the first messages of a conversation."""
    query = MessageQuery(conversation_id=conversation_id, message_limit=500)
    return (await organization.get_conversation(query)).messages


async def read_texts(organization: OrganizationStore, conversation_id: ConversationId) -> list[str]:
    """Return what the first messages of a conversation say."""
    return [message.content for message in await read(organization, conversation_id)]


async def find(
    organization: OrganizationStore,
    *terms: str,
    limit: int = 10,
    filters: SearchFilters = EVERYTHING,
) -> Candidates:
    """Return what a search by words alone proposes."""
    return await find_candidates(organization, terms, filters=filters, limit=limit)


async def count_holders(organization: OrganizationStore, *terms: str, limit: int = 10) -> int:
    """Return how many messages hold a word themselves, as a search finds them."""
    found = await find(organization, *terms, limit=limit)
    return int((found.share_message > 0).sum())


async def findings(organization: OrganizationStore) -> list[Finding]:
    """Return all that is wrong with a store."""
    return [finding async for finding in organization.verify()]


@contextmanager
def opened(folder: Path, organization: OrganizationStore) -> Generator[Connection]:
    """Open an organisation's rows with nothing of ours in between; commit at the end."""
    if (folder / "store").is_dir():
        with opened_file(folder, organization) as file:
            yield file
    else:
        with opened_rows(present_database(), organization) as rows:
            yield rows


def tables_of(connection: Connection) -> list[str]:
    """Return the tables of an organisation."""
    names = connection.execute(
        """/*sqlite:*/ SELECT name FROM sqlite_schema WHERE type = 'table'
        /*postgres: SELECT table_name FROM information_schema.columns
            WHERE table_schema = 'engram' AND column_name = 'organization_id'
                AND data_type = 'bigint' */"""
    )
    return [name for (name,) in names]


def dump(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of an organisation."""
    return {
        name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608 - names of tables
        for name in tables_of(connection)
        if name != "meta"  # whose revision counts works that failed, where they shared a commit
    }


def refuse(connection: Connection, change: str, *, when: str = "true") -> None:
    """Let a change of a table fail from now on."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute(
            f"CREATE TRIGGER refuse BEFORE {change} WHEN {when} BEGIN SELECT RAISE(ABORT, 'no'); END"
        )
    else:
        refuse_rows(connection, change, when=when)


@contextmanager
def opened_file(folder: Path, organization: OrganizationStore) -> Generator[sqlite3.Connection]:
    """Open an organisation's SQLite file with nothing of ours in between; commit at the end."""
    path = folder / "store" / "orgs" / f"{organization.organization_id}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    finally:
        connection.close()


WORDS = [
    "memory",
    "agents",
    "keep",
    "what",
    "was",
    "said",
    "and",
    "find",
    "it",
    "again",
    "by",
    "meaning",
    "or",
    "by",
    "the",
    "very",
    "word",
]


def sentence(number: int) -> str:
    chance = random.Random(number)  # noqa: S311 - no secrets
    return " ".join(chance.choice(WORDS) for _ in range(40))


def encodings(folder: Path, organization: OrganizationStore) -> list[str | None]:
    with opened(folder, organization) as connection:
        rows = connection.execute("SELECT content_encoding FROM message ORDER BY key")
        return [encoding for (encoding,) in rows]


def damage(folder: Path, organization: OrganizationStore, statement: str) -> None:
    """Run a statement on an organisation's file that no store would run."""
    with opened(folder, organization) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement)
