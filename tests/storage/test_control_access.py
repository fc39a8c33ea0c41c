"""Rotation of keys, the addresses they are used from, and what else is audited, on every backend."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engram import limits
from engram.errors import ConflictError, LimitExceededError, NotFoundError
from engram.model.access import AuditEntry, AuditNote, KeyDraft, NewKey, Organization
from engram.model.access import OrganizationDraft as Draft
from engram.model.ids import KeyId, OrganizationId
from engram.storage.control.store import ControlStore
from engram.storage.store import Store
from tests.fakes import FakeClock

ACTOR = "operator"
AN_HOUR = timedelta(hours=1)


@pytest.fixture
def control(store: Store) -> ControlStore:
    return store.control


@pytest.fixture
async def acme(control: ControlStore) -> Organization:
    return await control.create_organization(Draft(name="Acme"), actor=ACTOR)


async def new_key(control: ControlStore, owner: Organization, **fields: object) -> NewKey:
    draft = KeyDraft(name="laptop", scopes=("read",), toolsets=("notes",), **fields)  # pyright: ignore[reportArgumentType] fields of a draft
    return await control.create_key(owner.id, draft, actor=ACTOR)


async def audit_of(control: ControlStore, action: str) -> list[AuditEntry]:
    entries = await control.list_audit(None, limit=500, before=None)
    return [entry for entry in entries if entry.action == action]


async def test_a_revoked_key_is_restored_once_and_that_is_audited(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    key = (await new_key(control, acme)).key
    await control.revoke_key(acme.id, key.id, actor=ACTOR)
    clock.advance(AN_HOUR)

    restored = await control.restore_key(acme.id, key.id, within=AN_HOUR, actor="key_me")
    again = await control.restore_key(acme.id, key.id, within=AN_HOUR, actor="key_me")

    assert restored == again == key
    assert await control.list_keys(acme.id) == (key,)
    (entry,) = await audit_of(control, "restore_key")
    assert (entry.subject, entry.actor) == (key.id, "key_me")


async def test_keys_that_ended_long_ago_expired_or_are_others_stay_revoked(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    other = await control.create_organization(Draft(name="other"), actor=ACTOR)
    early, late = await new_key(control, acme), await new_key(control, acme)
    brief = await new_key(control, acme, expires_at=clock.now() + AN_HOUR)
    await control.revoke_key(acme.id, early.key.id, actor=ACTOR)
    clock.advance(AN_HOUR)
    for each in (late, brief):
        await control.revoke_key(acme.id, each.key.id, actor=ACTOR)
    clock.advance(AN_HOUR / 60)

    for each in (early, brief):
        with pytest.raises(ConflictError):
            await control.restore_key(acme.id, each.key.id, within=AN_HOUR, actor=ACTOR)
    with pytest.raises(NotFoundError):
        await control.restore_key(other.id, late.key.id, within=AN_HOUR, actor=ACTOR)

    assert all(key.revoked_at for key in await control.list_keys(acme.id))
    assert await audit_of(control, "restore_key") == []


async def test_no_key_is_restored_beyond_the_bound(
    control: ControlStore, acme: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = (await new_key(control, acme)).key
    await control.revoke_key(acme.id, key.id, actor=ACTOR)
    await new_key(control, acme)
    monkeypatch.setattr(limits, "KEYS_PER_ORGANIZATION_MAX", 1)

    with pytest.raises(LimitExceededError):
        await control.restore_key(acme.id, key.id, within=AN_HOUR, actor=ACTOR)


async def test_a_rotated_key_has_a_twin_and_ends_after_the_overlap(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    old = await new_key(control, acme, expires_at=clock.now() + 9 * AN_HOUR)
    clock.advance(AN_HOUR)

    rotated = await control.rotate_key(acme.id, old.key.id, overlap=AN_HOUR, actor="key_me")

    new = rotated.new.key
    assert (new.name, new.scopes, new.toolsets) == ("laptop", ("read",), ("notes",))
    assert new.expires_at == old.key.expires_at
    assert rotated.new.secret != old.secret
    assert rotated.old.expires_at == clock.now() + AN_HOUR
    assert await control.list_keys(acme.id) == (rotated.old, new)


async def test_rotation_is_audited_with_both_keys(
    control: ControlStore, acme: Organization
) -> None:
    old = await new_key(control, acme)

    rotated = await control.rotate_key(acme.id, old.key.id, overlap=AN_HOUR, actor="key_me")

    (entry,) = await audit_of(control, "rotate_key")
    assert (entry.actor, entry.subject) == ("key_me", old.key.id)
    assert entry.details["new_key"] == rotated.new.key.id
    assert rotated.new.secret not in repr(entry)


async def test_an_overlap_never_lengthens_the_life_of_a_key(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    old = await new_key(control, acme, expires_at=clock.now() + AN_HOUR)

    rotated = await control.rotate_key(acme.id, old.key.id, overlap=24 * AN_HOUR, actor=ACTOR)

    assert rotated.old.expires_at == clock.now() + AN_HOUR


async def test_only_a_live_key_of_the_organisation_is_rotated(
    control: ControlStore, acme: Organization, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    revoked = await new_key(control, acme)
    await control.revoke_key(acme.id, revoked.key.id, actor=ACTOR)
    expired = await new_key(control, acme, expires_at=clock.now() + AN_HOUR)
    clock.advance(AN_HOUR)
    live = await new_key(control, acme)
    other = await control.create_organization(Draft(name="Other"), actor=ACTOR)

    for key in (revoked, expired):
        with pytest.raises(ConflictError):
            await control.rotate_key(acme.id, key.key.id, overlap=AN_HOUR, actor=ACTOR)
    with pytest.raises(NotFoundError):
        await control.rotate_key(other.id, live.key.id, overlap=AN_HOUR, actor=ACTOR)
    monkeypatch.setattr(limits, "KEYS_PER_ORGANIZATION_MAX", 1)
    with pytest.raises(LimitExceededError):
        await control.rotate_key(acme.id, live.key.id, overlap=AN_HOUR, actor=ACTOR)

    assert await audit_of(control, "rotate_key") == []
    assert (await control.list_keys(acme.id))[-1].expires_at is None


async def test_an_address_is_new_to_a_key_once(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    key = (await new_key(control, acme)).key.id

    await control.note_addresses({key: {"10.0.0.1": clock.now(), "10.0.0.2": clock.now()}})
    clock.advance(AN_HOUR)
    await control.note_addresses({key: {"10.0.0.1": clock.now()}})
    await control.note_addresses({key: {"10.0.0.3": clock.now()}})

    newest, first = await audit_of(control, "new_address")
    assert (first.actor, first.subject) == (key, key)
    assert first.details == {"addresses": ["10.0.0.1", "10.0.0.2"], "count": 2}
    assert newest.details == {"addresses": ["10.0.0.3"], "count": 1}
    assert newest.at == clock.now()


async def test_a_key_remembers_the_addresses_it_was_last_used_from(
    control: ControlStore, acme: Organization, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEY_ADDRESSES_MAX", 2)
    key = (await new_key(control, acme)).key.id
    for address in ("one", "two", "one", "three", "one", "two"):
        clock.advance(AN_HOUR)
        await control.note_addresses({key: {address: clock.now()}})

    told = [entry.details["addresses"] for entry in await audit_of(control, "new_address")]

    assert told == [["two"], ["three"], ["two"], ["one"]]


async def test_many_new_addresses_at_once_are_one_row(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    key = (await new_key(control, acme)).key.id
    seen = {f"10.0.{n // 250}.{n % 250}": clock.now() for n in range(1_000)}

    await control.note_addresses({key: seen, KeyId("key_nobody"): seen})

    (entry,) = await audit_of(control, "new_address")
    assert entry.details["count"] == 1_000
    assert len(entry.details["addresses"]) == limits.NEW_ADDRESSES_SHOWN


async def test_notes_are_audited_as_they_are(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    earlier = clock.now() - AN_HOUR
    note = AuditNote(
        organization_id=acme.id,
        at=earlier,
        actor="key_x",
        action="denied",
        details={"count": 3},
    )

    await control.record_audit([note])

    (entry,) = await audit_of(control, "denied")
    assert (entry.at, entry.actor, entry.subject) == (earlier, "key_x", acme.id)
    assert entry.details == {"count": 3}


async def test_deleting_an_organisation_gives_the_audit_row_as_a_receipt(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    await new_key(control, acme)

    receipt = await control.delete_organization(acme.id, actor="key_me", details={"messages": 7})

    (entry,) = await audit_of(control, "delete_organization")
    assert receipt == entry
    assert entry.details == {"name": "Acme", "messages": 7, "keys": 1}
    assert (entry.at, entry.subject) == (clock.now(), OrganizationId(acme.id))
