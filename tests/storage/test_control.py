"""The contract of `ControlStore`, for every backend."""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from typing import Any

import pytest

from engram import limits
from engram.errors import ConflictError, InvalidRequestError, LimitExceededError, NotFoundError
from engram.model.access import (
    ApiKey,
    AuditEntry,
    KeyDraft,
    Organization,
    OrganizationChange,
    OrganizationDraft,
    Quota,
)
from engram.model.ids import KeyId, OrganizationId
from engram.model.status import UsageDay
from engram.model.value import replace
from engram.storage.control.store import ControlStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise

ACTOR = "operator"
NOBODY = OrganizationId("org_nobody")
A_MINUTE = timedelta(minutes=1)


@pytest.fixture
def control(store: Store) -> ControlStore:
    return store.control


@pytest.fixture
async def acme(control: ControlStore) -> Organization:
    return await control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)


@pytest.fixture
async def other(control: ControlStore) -> Organization:
    return await control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)


async def test_an_organization_comes_back_as_it_was_created(
    control: ControlStore, clock: FakeClock
) -> None:
    quota = Quota(messages_max=10, bytes_max=2**40)

    created = await control.create_organization(
        OrganizationDraft(name="Ünïcode & Söhne", messages_max=10, bytes_max=2**40), actor=ACTOR
    )

    assert created.id.startswith("org_")
    assert created == Organization(
        id=created.id,
        name="Ünïcode & Söhne",
        is_local=False,
        quota=quota,
        created_at=clock.now(),
    )
    assert await control.get_organization(created.id) == created


async def test_organizations_are_listed_oldest_first(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    assert await control.list_organizations() == (acme, other)


async def test_an_unknown_organization_is_not_found(control: ControlStore) -> None:
    with pytest.raises(NotFoundError):
        await control.get_organization(NOBODY)
    with pytest.raises(NotFoundError):
        await control.delete_organization(NOBODY, actor=ACTOR)
    with pytest.raises(NotFoundError):
        await control.create_key(NOBODY, KeyDraft(name="key"), actor=ACTOR)
    with pytest.raises(NotFoundError):
        await control.list_keys(NOBODY)


@promise("local")
async def test_there_is_at_most_one_local_organization(control: ControlStore) -> None:
    assert await control.local_organization() is None
    draft = OrganizationDraft(name="local")
    local = await control.create_organization(draft, actor=ACTOR, is_local=True)

    with pytest.raises(ConflictError):
        await control.create_organization(draft, actor=ACTOR, is_local=True)

    assert local.is_local
    assert await control.local_organization() == local
    assert await control.list_organizations() == (local,)


@promise("secrets")
async def test_a_key_is_found_by_its_secrets_hash(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    expires_at = clock.now() + A_MINUTE
    draft = KeyDraft(
        name="laptop", scopes=("search", "read"), toolsets=("notes",), expires_at=expires_at
    )

    new = await control.create_key(acme.id, draft, actor=ACTOR)

    assert new.secret.startswith("engram_sk_live_")
    assert len(new.secret) == len("engram_sk_live_") + 32
    assert new.key == ApiKey(
        id=new.key.id,
        organization_id=acme.id,
        name="laptop",
        prefix=new.secret[:20],
        scopes=("search", "read"),
        toolsets=("notes",),
        created_at=clock.now(),
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
    )
    found = await control.find_key(hashed(new.secret))
    assert found is not None
    assert found.key == new.key
    assert found.organization == acme


async def test_an_unknown_secret_finds_no_key(control: ControlStore, acme: Organization) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)

    assert await control.find_key(hashed(new.secret + "x")) is None
    assert await control.find_key(new.secret) is None


@promise("secrets")
async def test_no_two_secrets_are_alike(control: ControlStore, acme: Organization) -> None:
    draft = KeyDraft(name="key")

    secrets = {(await control.create_key(acme.id, draft, actor=ACTOR)).secret for _ in range(20)}

    assert len(secrets) == 20


async def test_a_revoked_key_is_found_as_revoked(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)
    clock.advance(A_MINUTE)

    revoked = await control.revoke_key(acme.id, new.key.id, actor=ACTOR)

    assert revoked.revoked_at == clock.now()
    found = await control.find_key(hashed(new.secret))
    assert found is not None
    assert found.key == revoked
    assert await control.list_keys(acme.id) == (revoked,)


async def test_revoking_again_changes_nothing(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)
    first = await control.revoke_key(acme.id, new.key.id, actor=ACTOR)
    clock.advance(A_MINUTE)

    again = await control.revoke_key(acme.id, new.key.id, actor=ACTOR)

    assert again == first
    assert [entry.action for entry in await audit_of(control, acme)].count("revoke_key") == 1


@promise("apart")
async def test_a_key_of_another_organization_is_neither_listed_nor_revoked(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)

    with pytest.raises(NotFoundError) as theirs:
        await control.revoke_key(other.id, new.key.id, actor=ACTOR)
    with pytest.raises(NotFoundError) as nobodys:
        await control.revoke_key(other.id, KeyId("key_nobody"), actor=ACTOR)

    assert theirs.value.code == nobodys.value.code
    assert await control.list_keys(other.id) == ()
    assert await control.list_keys(acme.id) == (new.key,)


async def test_the_number_of_live_keys_is_bounded(
    control: ControlStore, acme: Organization, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEYS_PER_ORGANIZATION_MAX", 2)
    draft = KeyDraft(name="key", expires_at=clock.now() + A_MINUTE)
    keys = [await control.create_key(acme.id, draft, actor=ACTOR) for _ in range(2)]

    with pytest.raises(LimitExceededError):
        await control.create_key(acme.id, draft, actor=ACTOR)

    await control.revoke_key(acme.id, keys[0].key.id, actor=ACTOR)
    await control.create_key(acme.id, draft, actor=ACTOR)
    clock.advance(A_MINUTE)
    await control.create_key(acme.id, KeyDraft(name="after the others expired"), actor=ACTOR)


async def test_the_last_use_of_a_key_never_moves_backwards(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    key = (await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)).key
    later = clock.now() + A_MINUTE

    await control.touch_keys({key.id: later, KeyId("key_nobody"): later})
    await control.touch_keys({key.id: clock.now()})

    (listed,) = await control.list_keys(acme.id)
    assert listed.last_used_at == later


async def test_deleting_an_organization_takes_its_keys_and_nobody_elses(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    gone = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)
    kept = await control.create_key(other.id, KeyDraft(name="key"), actor=ACTOR)

    await control.delete_organization(acme.id, actor=ACTOR)

    assert await control.find_key(hashed(gone.secret)) is None
    assert await control.find_key(hashed(kept.secret)) is not None
    assert await control.list_organizations() == (other,)
    with pytest.raises(NotFoundError):
        await control.get_organization(acme.id)
    with pytest.raises(NotFoundError):
        await control.delete_organization(acme.id, actor=ACTOR)


async def test_a_deleted_organization_is_told_from_one_that_never_was(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    await control.delete_organization(acme.id, actor=ACTOR)

    assert await control.was_deleted(acme.id)
    assert not await control.was_deleted(other.id)
    assert not await control.was_deleted(NOBODY)


@promise("audit")
async def test_every_action_is_audited_with_its_actor_and_subject(
    control: ControlStore, acme: Organization, clock: FakeClock
) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key", scopes=("read",)), actor="one")
    await control.revoke_key(acme.id, new.key.id, actor="two")
    await control.delete_organization(acme.id, actor="three")

    entries = await audit_of(control, acme)

    assert [(entry.action, entry.actor, entry.subject) for entry in entries] == [
        ("delete_organization", "three", acme.id),
        ("revoke_key", "two", new.key.id),
        ("create_key", "one", new.key.id),
        ("create_organization", ACTOR, acme.id),
    ]
    assert {entry.at for entry in entries} == {clock.now()}
    assert len({entry.id for entry in entries}) == 4
    assert all(entry.id.startswith("aud_") for entry in entries)
    assert entries[2].details == {"name": "key", "scopes": ["read"]}


@promise("audit")
async def test_a_refused_action_is_not_audited(
    control: ControlStore, acme: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KEYS_PER_ORGANIZATION_MAX", 0)
    with pytest.raises(LimitExceededError):
        await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)

    assert [entry.action for entry in await audit_of(control, acme)] == ["create_organization"]


@promise("secrets")
async def test_no_audit_row_holds_a_secret(control: ControlStore, acme: Organization) -> None:
    new = await control.create_key(acme.id, KeyDraft(name="key"), actor=ACTOR)

    text = repr(await audit_of(control, acme))

    assert new.secret not in text
    assert hashed(new.secret) not in text


@promise("apart")
async def test_audit_rows_are_paged_and_kept_apart(
    control: ControlStore, acme: Organization, other: Organization, clock: FakeClock
) -> None:
    for name in ("one", "two", "three"):
        clock.advance(A_MINUTE)
        await control.create_key(acme.id, KeyDraft(name=name), actor=ACTOR)

    first = await control.list_audit(acme.id, limit=2, before=None)
    second = await control.list_audit(acme.id, limit=2, before=first[-1].at)

    assert [entry.details["name"] for entry in first + second] == ["three", "two", "one", "Acme"]
    assert [e.subject for e in await control.list_audit(other.id, limit=9, before=None)] == [
        other.id
    ]
    assert len(await control.list_audit(None, limit=9, before=None)) == 5
    assert len(await control.list_audit(None, limit=9, before=first[-1].at)) == 3


async def test_ping_reads_the_store(control: ControlStore) -> None:
    await control.ping()


async def test_a_store_in_order_passes_its_check(store: Store, acme: Organization) -> None:
    await store.check(by_writing=False)
    await store.check(by_writing=True)

    assert await store.control.list_organizations() == (acme,)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


async def audit_of(control: ControlStore, organization: Organization) -> tuple[AuditEntry, ...]:
    return await control.list_audit(organization.id, limit=100, before=None)


async def test_a_quota_is_changed_field_by_field_and_audited(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    change = OrganizationChange(messages_max=7, bytes_max=2**40, name="Ünï")
    await control.change_organization(acme.id, change, actor=ACTOR)

    changed = await control.change_organization(
        acme.id, OrganizationChange(messages_max=None), actor=ACTOR
    )

    assert (changed.name, changed.quota) == ("Ünï", Quota(bytes_max=2**40))
    assert await control.get_organization(acme.id) == changed
    assert await control.get_organization(other.id) == other
    newest, *_ = await control.list_audit(acme.id, limit=1, before=None)
    assert (newest.action, newest.actor) == ("change_organization", ACTOR)
    assert (newest.subject, newest.details) == (acme.id, {"messages_max": None})


@pytest.mark.parametrize(
    "given", [{}, {"name": None}, {"name": ""}, {"messages_max": -1}, {"bytes_max": 2**60}]
)
async def test_what_is_no_quota_changes_nothing(
    control: ControlStore, acme: Organization, given: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError):
        await control.change_organization(acme.id, OrganizationChange(**given), actor=ACTOR)

    assert await control.get_organization(acme.id) == acme


async def test_the_quota_of_nobody_is_not_changed(control: ControlStore) -> None:
    with pytest.raises(NotFoundError):
        await control.change_organization(NOBODY, OrganizationChange(bytes_max=1), actor=ACTOR)


async def test_days_of_use_are_added_up_and_old_ones_removed(
    control: ControlStore, acme: Organization, other: Organization
) -> None:
    day = date(2026, 5, 8)
    first = UsageDay(day=day, requests=1, searches=2, embedded_texts=3, stored_bytes=900)
    old = replace(first, day=day - timedelta(days=limits.USAGE_DAYS_MAX + 1))
    await control.add_usage({acme.id: [old]})
    await control.add_usage({acme.id: [first], other.id: [first], NOBODY: [first]})

    await control.add_usage({acme.id: [replace(first, stored_bytes=4)]})

    assert await control.list_usage(acme.id, limit=500) == (
        UsageDay(day=day, requests=2, searches=4, embedded_texts=6, stored_bytes=4),
    )
    assert await control.list_usage(other.id, limit=500) == (first,)
    await control.delete_organization(other.id, actor=ACTOR)
    assert await control.list_usage(other.id, limit=500) == ()
