"""The simulation can fail: it finds each of some bugs that are planted for it."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from engram.model.access import Principal
from engram.model.conversation import AppendReceipt, AppendRequest, DeletionReceipt
from engram.model.ids import ConversationId, OrganizationId
from engram.model.value import replace
from engram.service.conversations import Conversations
from engram.storage.sqlite import file as sqlite_file
from engram.storage.sqlite.store import SqliteStore
from engram.storage.sqlite.word_index import Fts5WordIndex
from tests.simulation.simulation import (
    FailedRunError,
    Simulation,
    repeatable_interpreter,
    run_seed,
)

SEEDS_MAX = 30
"""A bug has to show itself in one of them."""

STEPS = 1_500


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with repeatable_interpreter():
        yield


def find_failure(*, plant: Callable[[Simulation], None] | None = None) -> str:
    """Return why the first seed that fails does."""
    for seed in range(SEEDS_MAX):
        try:
            run_seed(seed, steps=STEPS, plant=plant)
        except FailedRunError as exc:
            return exc.reason
    return "no seed failed"


def every(count: int) -> Callable[[], bool]:
    """Return a function that is true every so many calls."""
    calls = itertools.count(1)
    return lambda: next(calls) % count == 0


def test_a_disk_that_lies_about_syncs_is_found() -> None:
    def plant(simulation: Simulation) -> None:
        simulation.disk.lies_about_sync = True
        simulation.nemeses = ["lose_power"]

    assert "no seed failed" != find_failure(plant=plant)


def test_an_acknowledgement_without_a_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    is_bad, session = every(20), sqlite_file._SqliteSession  # pyright: ignore[reportPrivateUsage]
    commit = session.commit

    def commit_or_not(self: Any) -> None:
        if is_bad():
            self._opened.execute("ROLLBACK")
        else:
            commit(self)

    monkeypatch.setattr(session, "commit", commit_or_not)

    assert "no seed failed" != find_failure()


def test_a_deletion_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete(
        self: Conversations, principal: Principal, conversation_id: ConversationId
    ) -> DeletionReceipt:
        return DeletionReceipt(messages=1_000, chunks=0, vectors=0, receipt="aud_1")

    monkeypatch.setattr(Conversations, "delete_conversation", delete)

    assert "deleted" in find_failure()


def test_two_tenants_in_each_others_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    is_bad, organization = every(40), SqliteStore.organization

    async def swapped(self: SqliteStore, organization_id: OrganizationId) -> Any:
        if is_bad():
            others = [each.id for each in await self.control.list_organizations()]
            others.remove(organization_id)
            organization_id = others[0]
        return await organization(self, organization_id)

    monkeypatch.setattr(SqliteStore, "organization", swapped)

    assert "no seed failed" != find_failure()


def test_a_repeated_append_that_is_stored_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    append = Conversations.append_messages

    async def without_key(
        self: Conversations, principal: Principal, request: AppendRequest
    ) -> AppendReceipt:
        return await append(self, principal, replace(request, idempotency_key=None))

    def plant(simulation: Simulation) -> None:
        simulation.impatience = 0.5

    monkeypatch.setattr(Conversations, "append_messages", without_key)

    assert "no seed failed" != find_failure(plant=plant)


def test_a_message_that_is_not_indexed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    is_bad, add = every(10), Fts5WordIndex.add

    def forget(
        self: Fts5WordIndex, connection: sqlite3.Connection, rows: Sequence[Any], **options: Any
    ) -> None:
        add(self, connection, [] if is_bad() else rows, **options)

    monkeypatch.setattr(Fts5WordIndex, "add", forget)

    assert "no seed failed" != find_failure()


def test_half_of_an_append_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is a transaction of its own."""
    append = Conversations.append_messages

    async def one_by_one(
        self: Conversations, principal: Principal, request: AppendRequest
    ) -> AppendReceipt:
        receipts = [
            await append(self, principal, replace(request, messages=(each,), idempotency_key=None))
            for each in request.messages
        ]
        ids = tuple(id_ for receipt in receipts for id_ in receipt.message_ids)
        return replace(receipts[0], message_ids=ids, last_sequence=receipts[-1].last_sequence)

    monkeypatch.setattr(Conversations, "append_messages", one_by_one)

    assert "no seed failed" != find_failure()
