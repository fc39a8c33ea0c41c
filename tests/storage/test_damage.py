"""Random damage from outside is harmless or loud: no wrong and no empty answer is given in silence.

`make damage N=1000` makes more of it than a run of all tests does.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from engram.clock import RandomIds
from engram.errors import EngramError
from engram.model.access import OrganizationDraft
from engram.model.conversation import ConversationQuery, MessageQuery
from engram.model.ids import ConversationId, OrganizationId
from engram.model.memory import MemoryDraft, MemoryQuery
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import SOME_DAY, FakeClock
from tests.storage.drafts import ACTOR, begin, find, findings, sentence
from tests.storage.memory_drafts import store as store_memories

ORGANIZATIONS = 2
CONVERSATIONS = 3
PROBES = ("memori", "agent", "mean", "apple0", "apple1", "apple2")
"""Words that are searched for, as the analyser leaves them."""

Outcome = Literal["harmless", "loud"]
Damage = Callable[[Path, random.Random], object]


class Template(NamedTuple):
    """A store to damage copies of, and all that it says."""

    closed: Path
    """As it is when everybody has closed it."""
    crashed: Path
    """As a killed process leaves it: the last commits are in the logs."""
    older: Path
    """As it was when half of it was stored."""
    truth: dict[str, Hashable]


@asynccontextmanager
async def opened(directory: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(directory, clock=FakeClock(), ids=RandomIds())
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def observe(store: SqliteStore) -> dict[str, Hashable]:
    """Return all that can be read in a store: contents, their order and counts, and what is found.

    What else a row says (titles, tags, names, times) is not compared.
    """
    said: dict[str, Hashable] = {}
    for each in await store.control.list_organizations():
        organization = await store.organization(each.id)
        said[each.id] = (
            await _conversations(organization),
            await _memories(organization),
            await _found(organization),
        )
    return said


async def _conversations(organization: OrganizationStore) -> Hashable:
    page = await organization.list_conversations(ConversationQuery(limit=100))
    return page.total, frozenset(
        [
            (each.id, each.message_count, await _messages(organization, each.id))
            for each in page.conversations
        ]
    )


async def _messages(organization: OrganizationStore, conversation_id: ConversationId) -> Hashable:
    query = MessageQuery(conversation_id=conversation_id, message_limit=500)
    page = await organization.get_conversation(query)
    return tuple((message.sequence, message.role, message.content) for message in page.messages)


async def _memories(organization: OrganizationStore) -> Hashable:
    page = await organization.memories.list(MemoryQuery(limit=100), now=SOME_DAY)
    return page.total, tuple((memory.id, memory.content) for memory in page.memories)


async def _found(organization: OrganizationStore) -> Hashable:
    found = [await find(organization, word, limit=50) for word in PROBES]
    return tuple(frozenset(map(int, each.keys)) for each in found)


async def fill(store: SqliteStore, organization_id: OrganizationId, *, part: int) -> None:
    """Store half of what an organisation has."""
    organization = await store.organization(organization_id)
    for number in range(CONVERSATIONS):
        texts = [f"apple{number} {sentence(100 * part + 10 * number + i)}" for i in range(6)]
        await begin(organization, *texts, "kurz", "x" * 5_000)
    draft = MemoryDraft(content=f"apple{part} is a decision: {sentence(900 + part)}")
    await store_memories(organization, draft)


@pytest.fixture(scope="module")
async def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Return a small store in three states."""
    folder = tmp_path_factory.mktemp("template")
    closed, crashed, older = folder / "closed", folder / "crashed", folder / "older"
    async with opened(closed) as store:
        made = [
            await store.control.create_organization(OrganizationDraft(name=name), actor=ACTOR)
            for name in "abcdef"[:ORGANIZATIONS]
        ]
        for each in made:
            await fill(store, each.id, part=0)
    shutil.copytree(closed, older)
    async with opened(closed) as store:
        for each in made:
            await fill(store, each.id, part=1)
        truth = await observe(store)
        shutil.copytree(closed, crashed)
    return Template(closed, crashed, older, truth)


def flip(path: Path, chance: random.Random) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def overwrite(path: Path, chance: random.Random) -> None:
    """Fill a stretch with zeros or noise."""
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content))
    length = min(chance.choice([16, 512, 4096]), len(content) - start)
    content[start : start + length] = chance.choice([bytes(length), chance.randbytes(length)])
    path.write_bytes(content)


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def empty(path: Path, chance: random.Random) -> None:
    del chance
    os.truncate(path, 0)


def delete(path: Path, chance: random.Random) -> None:
    del chance
    path.unlink()


def some(directory: Path, chance: random.Random, *patterns: str) -> Path:
    """Return one of the files that are not empty."""
    found = sorted(path for each in patterns for path in directory.glob(each))
    return chance.choice([path for path in found if path.stat().st_size])


def damaging(*patterns: str, by: tuple[Damage, ...]) -> Damage:
    """Return what damages one file of some."""

    def damage(directory: Path, chance: random.Random) -> None:
        chance.choice(by)(some(directory, chance, *patterns), chance)

    return damage


def swap(directory: Path, chance: random.Random) -> None:
    """Exchange the files of two organisations, with or without their marks."""
    for suffix in chance.choice([(".db",), (".mark",), (".db", ".mark")]):
        one, other = sorted((directory / "orgs").glob(f"*{suffix}"))
        kept = one.rename(directory / "kept")
        other.rename(one)
        kept.rename(other)


def put_old(directory: Path, chance: random.Random) -> None:
    """Put an old copy of one file in its place; it has no log beside it."""
    path = some(directory, chance, "engram.db", "orgs/*.db")
    for log in path.parent.glob(f"{path.name}-*"):
        log.unlink()
    older = directory.parent / "older"
    shutil.copy(older / path.relative_to(directory), path)


ANY = (flip, overwrite, truncate, empty, delete)
KINDS: dict[str, Damage] = {
    "bit of a file": damaging("orgs/*.db", by=(flip,)),
    "stretch of a file": damaging("orgs/*.db", by=(overwrite,)),
    "length of a file": damaging("orgs/*.db", by=(truncate,)),
    "whole file": damaging("orgs/*.db", by=(empty, delete)),
    "files exchanged": swap,
    "old copy": put_old,
    "bit of a log": damaging("orgs/*.db-wal", "engram.db-wal", by=(flip,)),
    "log": damaging("orgs/*.db-wal", "engram.db-wal", by=(overwrite, truncate, empty, delete)),
    "control file": damaging("engram.db", by=ANY),
    "mark": damaging("orgs/*.mark", "engram.mark", by=ANY),
}
IN_LOGS = {"bit of a log", "log"}
"""Damages that need a store whose last commits are in its logs."""


@pytest.mark.parametrize("kind", KINDS)
async def test_damage_is_harmless_or_loud(
    template: Template,
    tmp_path: Path,
    kind: str,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    rounds = max(1, int(request.config.getoption("damages") or 0) // len(KINDS))
    outcomes = Counter[str]()

    for number in range(rounds):
        chance = random.Random(f"{kind} {number}")  # noqa: S311 - no secrets
        is_crashed = kind in IN_LOGS or chance.random() < 0.3
        directory = tmp_path / "damaged"
        shutil.copytree(template.crashed if is_crashed else template.closed, directory)
        shutil.copytree(template.older, tmp_path / "older", dirs_exist_ok=True)
        KINDS[kind](directory, chance)

        outcome = await outcome_of(directory, template.truth)

        assert outcome is not None, f"silent: {kind}, round {number}"
        outcomes[outcome] += 1
        shutil.rmtree(directory)

    record_property("told", f"{outcomes['harmless']} harmless, {outcomes['loud']} loud")


async def outcome_of(directory: Path, truth: dict[str, Hashable]) -> Outcome | None:
    """Return what became of a damage; None if there is a wrong answer and nobody says so."""
    try:
        async with opened(directory) as store:
            if await observe(store) == truth:
                return "harmless"
            return "loud" if await examine(store) else None
    except EngramError:
        return "loud"


async def examine(store: SqliteStore) -> bool:
    """Return True if `engram doctor` would find anything."""
    if await store.check_files():
        return True
    for each in await store.control.list_organizations():
        if await findings(await store.organization(each.id)):
            return True
    return False
