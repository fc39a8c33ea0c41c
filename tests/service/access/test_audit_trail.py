"""What is audited beside writes: denials, dumps, exports, and where keys are used from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import AccessDeniedError, StorageError, UnauthenticatedError
from engram.model.access import AuditEntry, KeyDraft, NewKey, OrganizationDraft, Principal
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.places import is_database, place

pytestmark = promise("audit")

__all__ = ["place"]
"""A fixture of another module."""


class House:
    """A service on each store, with one organisation."""

    def __init__(self, service: Service, owner: Principal, clock: FakeClock) -> None:
        self.service = service
        self.owner = owner
        self.clock = clock

    async def new_key(self, **fields: object) -> NewKey:
        draft = KeyDraft(name="k", **fields)  # pyright: ignore[reportArgumentType] fields of a draft
        return await self.service.access.create_key(self.owner, draft)

    async def audited(self, action: str) -> list[AuditEntry]:
        """Return the rows of an action, newest first, once everything is written down."""
        await self.service.access.record_use()
        entries = await self.service.account.audit(self.owner, limit=500)
        return [entry for entry in entries if entry.action == action]


@pytest.fixture
async def house(place: str, tmp_path: Path) -> AsyncIterator[House]:
    clock = FakeClock()
    settings = Settings(
        home=tmp_path / "store",
        database_url=place if is_database(place) else None,
        embedder=NoEmbedder(),
        data_dir=tmp_path,
    )
    async with open_service(settings, clock=clock) as service:
        made, _ = await service.operator.create_organization(OrganizationDraft(name="acme"))
        yield House(service, await service.operator.act_for(made.id), clock)


async def test_being_denied_many_times_is_one_row_with_a_count(house: House) -> None:
    key = await house.new_key(scopes=("read",))
    reader = await house.service.access.authenticate(key.secret)
    began = house.clock.now()
    for _ in range(1_000):
        house.clock.advance(timedelta(milliseconds=1))
        house.service.access.note_denied(reader, AccessDeniedError("write"))
    house.service.access.note_denied(reader, AccessDeniedError("delete"))

    rows = await house.audited("denied")

    assert {row.actor for row in rows} == {key.key.id}
    assert [row.details for row in rows] == [
        {"reason": "insufficient_scope", "required": "delete", "count": 1},
        {"reason": "insufficient_scope", "required": "write", "count": 1_000},
    ]
    assert rows[1].at == began + timedelta(milliseconds=1)
    assert await house.audited("denied") == rows


async def test_a_key_that_has_ended_is_audited_where_it_belongs(house: House) -> None:
    revoked = await house.new_key()
    await house.service.access.revoke_key(house.owner, revoked.key.id)
    expired = await house.new_key(expires_at=house.clock.now() + timedelta(hours=1))
    house.clock.advance(timedelta(hours=1))
    for secret in (revoked.secret, expired.secret, expired.secret):
        with pytest.raises(UnauthenticatedError):
            await house.service.access.authenticate(secret, address="10.0.0.1")

    rows = await house.audited("denied")

    assert {row.actor: row.details for row in rows} == {
        revoked.key.id: {"reason": "revoked", "count": 1},
        expired.key.id: {"reason": "expired", "count": 2},
    }


async def test_kinds_of_denials_that_wait_have_a_bound(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "AUDIT_PENDING_MAX", 2)
    for scope in ("read", "write", "search", "write"):
        house.service.access.note_denied(house.owner, AccessDeniedError(scope))

    assert sum(row.details["count"] for row in await house.audited("denied")) == 3
    assert house.service.activity.audit_lost == 1


async def test_the_use_of_a_key_from_a_new_address_is_audited_once(house: House) -> None:
    key = await house.new_key()
    for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        await house.service.access.authenticate(key.secret, address=address)
    await house.audited("new_address")
    await house.service.access.authenticate(key.secret, address="10.0.0.1")
    await house.service.access.authenticate(key.secret, address="2001:db8::1")
    await house.service.access.authenticate(key.secret, address=None)

    rows = await house.audited("new_address")

    assert [row.details["addresses"] for row in rows] == [
        ["2001:db8::/64"],
        ["10.0.0.1", "10.0.0.2"],
    ]
    assert {row.subject for row in rows} == {key.key.id}


async def test_dumps_and_exports_are_audited_without_content(house: House) -> None:
    for _ in range(3):
        await house.service.projects.dump(house.owner, project="p", offset=0, token_budget=1_000)
    await house.service.memory_transfer.export_all(house.owner, "out", project="p")

    (dumped,) = await house.audited("memory_dump")
    (exported,) = await house.audited("memory_export_all")

    assert dumped.details == {"project": "p", "count": 3}
    assert exported.details == {"path": "out", "project": "p"}
    assert exported.actor == "operator"


async def test_what_could_not_be_written_is_written_the_next_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = house.service._tools.store.control  # pyright: ignore[reportPrivateUsage] to let it fail

    async def fail(_: object) -> None:
        raise StorageError

    house.service.access.note_denied(house.owner, AccessDeniedError("write"))
    with monkeypatch.context() as patched:
        patched.setattr(control, "record_audit", fail)
        assert await house.audited("denied") == []

    (row,) = await house.audited("denied")
    assert row.details["count"] == 1
