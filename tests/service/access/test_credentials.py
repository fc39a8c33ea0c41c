"""Credentials: who is let in, and how soon somebody is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import asdict

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    UnauthenticatedError,
)
from engram.model.access import KeyDraft, OrganizationDraft, Principal, Quota
from engram.model.ids import KeyId
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock, SequentialIds
from tests.promises import promise

ADMIN_TOKEN = "an operator's token"


class House:
    """One store used by two processes' services, on one clock."""

    def __init__(self, first: Service, second: Service, clock: FakeClock) -> None:
        self.first = first
        self.second = second
        self.clock = clock

    async def tenant(self, name: str = "acme", quota: Quota | None = None) -> str:
        draft = OrganizationDraft(name=name, **asdict(quota or Quota()))
        _, key = await self.first.operator.create_organization(draft)
        return key.secret

    async def principal(self, name: str = "acme") -> Principal:
        return await self.first.access.authenticate(await self.tenant(name))


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    clock = FakeClock()
    ids = SequentialIds()
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN)
    async with AsyncExitStack() as stack:
        services = [
            await stack.enter_async_context(open_service(settings, clock=clock, ids=ids))
            for _ in range(2)
        ]
        yield House(services[0], services[1], clock)


async def test_a_key_leads_to_its_organisation_and_scopes(house: House) -> None:
    secret = await house.tenant()

    principal = await house.second.access.authenticate(secret)

    assert principal.organization_id.startswith("org_")
    assert principal.actor.startswith("key_")
    assert principal.scopes == {"read", "write", "search", "delete", "admin"}


@promise("one-refusal")
@pytest.mark.parametrize(
    "secret", [None, "", "Bearer x", "engram_sk_live_", "engram_sk_live_" + "x" * 32, "\ud800"]
)
async def test_what_is_no_key_is_refused(house: House, secret: str | None) -> None:
    await house.tenant()

    with pytest.raises(UnauthenticatedError):
        await house.first.access.authenticate(secret)


@promise("revocation")
@pytest.mark.parametrize("step", [timedelta(seconds=1), timedelta(days=-2)])
async def test_a_revoked_key_is_refused_by_every_process_within_a_second(
    house: House, step: timedelta
) -> None:
    principal = await house.principal()
    new = await house.first.access.create_key(principal, KeyDraft(name="laptop"))
    await house.first.access.authenticate(new.secret)
    await house.second.access.authenticate(new.secret)

    revoked = await house.first.access.revoke_key(principal, new.key.id)
    house.clock.advance(step)

    assert revoked.revoked_at is not None
    assert revoked.revoked_at >= revoked.created_at
    for service in (house.first, house.second):
        with pytest.raises(UnauthenticatedError):
            await service.access.authenticate(new.secret)


@promise("one-refusal")
async def test_a_key_is_refused_from_the_moment_it_expires(house: House) -> None:
    principal = await house.principal()
    expiry = house.clock.now() + timedelta(milliseconds=200)
    draft = KeyDraft(name="short", expires_at=expiry)
    new = await house.first.access.create_key(principal, draft)
    await house.first.access.authenticate(new.secret)

    house.clock.advance(timedelta(milliseconds=200))

    with pytest.raises(UnauthenticatedError):
        await house.first.access.authenticate(new.secret)


async def test_a_deleted_organisations_key_is_refused_by_every_process(house: House) -> None:
    secret = await house.tenant()
    principal = await house.second.access.authenticate(secret)

    await house.first.account.delete_account(principal, organization="acme")
    house.clock.advance(timedelta(seconds=1))

    with pytest.raises(UnauthenticatedError):
        await house.second.access.authenticate(secret)
    with pytest.raises(NotFoundError):
        await house.second.account.status(principal)


@promise("scopes")
async def test_a_key_without_a_scope_is_told_which_one_it_needs(house: House) -> None:
    principal = await house.principal()
    draft = KeyDraft(name="reader", scopes=("read",))
    new = await house.first.access.create_key(principal, draft)
    reader = await house.first.access.authenticate(new.secret)

    with pytest.raises(AccessDeniedError) as caught:
        await house.first.access.list_keys(reader)
    assert caught.value.required == "admin"


async def test_a_key_cannot_revoke_itself(house: House) -> None:
    principal = await house.principal()
    (own,) = await house.first.access.list_keys(principal)

    with pytest.raises(ConflictError):
        await house.first.access.revoke_key(principal, own.id)


async def test_the_key_of_another_organisation_cannot_be_revoked(house: House) -> None:
    acme, other = await house.principal("acme"), await house.principal("other")
    (foreign,) = await house.first.access.list_keys(other)

    with pytest.raises(NotFoundError):
        await house.first.access.revoke_key(acme, foreign.id)
    assert (await house.first.access.list_keys(other))[0].revoked_at is None


async def test_use_of_a_key_is_recorded_off_the_requests_path(house: House) -> None:
    principal = await house.principal()
    assert (await house.first.access.list_keys(principal))[0].last_used_at is None

    await house.first.access.record_use()

    (key,) = await house.second.access.list_keys(principal)
    assert key.last_used_at == house.clock.now()


@promise("operators")
@pytest.mark.parametrize("token", [None, "", "wrong", ADMIN_TOKEN + "x", "ä"])
async def test_only_the_operators_token_makes_an_operator(house: House, token: str | None) -> None:
    with pytest.raises(UnauthenticatedError):
        house.first.access.authenticate_operator(token)

    assert house.first.access.authenticate_operator(ADMIN_TOKEN) == "operator"


async def test_the_first_key_is_handed_out_once(house: House) -> None:
    first = await house.first.access.first_key()

    assert first is not None
    assert await house.second.access.first_key() is None
    principal = await house.second.access.authenticate(first.secret)
    local = await house.second.access.local_principal()
    assert principal.organization_id == local.organization_id


@promise("secrets")
async def test_secrets_are_not_in_the_store(house: House, tmp_path: Path) -> None:
    secret = await house.tenant()

    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*.db*"))

    assert secret.encode() not in stored
    assert secret[20:].encode() not in stored


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=1)])
async def test_a_key_that_has_expired_already_is_not_made(house: House, age: timedelta) -> None:
    principal = await house.principal()
    draft = KeyDraft(name="late", expires_at=house.clock.now() - age)

    with pytest.raises(InvalidRequestError) as refused:
        await house.first.access.create_key(principal, draft)

    assert refused.value.field == "expires_at"
    assert len(await house.first.access.list_keys(principal)) == 1


async def test_a_rotated_key_works_beside_its_successor_until_the_overlap_ends(
    house: House,
) -> None:
    principal = await house.principal()
    old = await house.first.access.create_key(principal, KeyDraft(name="laptop"))
    await house.second.access.authenticate(old.secret)

    rotated = await house.first.access.rotate_key(principal, old.key.id, overlap_s=60)

    for secret in (old.secret, rotated.new.secret):
        await house.second.access.authenticate(secret)
    house.clock.advance(timedelta(seconds=60))
    await house.second.access.authenticate(rotated.new.secret)
    with pytest.raises(UnauthenticatedError):
        await house.second.access.authenticate(old.secret)


async def test_a_key_that_was_revoked_by_mistake_works_again_for_some_minutes(
    house: House,
) -> None:
    principal = await house.principal()
    key = await house.first.access.create_key(principal, KeyDraft(name="laptop"))
    await house.first.access.revoke_key(principal, key.key.id)
    with pytest.raises(UnauthenticatedError):
        await house.second.access.authenticate(key.secret)

    house.clock.advance(timedelta(seconds=limits.KEY_RESTORE_S_MAX))
    await house.first.access.restore_key(principal, key.key.id)

    assert await house.first.access.authenticate(key.secret)
    assert await house.second.access.authenticate(key.secret)
    await house.first.access.revoke_key(principal, key.key.id)
    house.clock.advance(timedelta(seconds=limits.KEY_RESTORE_S_MAX + 1))
    with pytest.raises(ConflictError):
        await house.first.access.restore_key(principal, key.key.id)


async def test_a_key_may_rotate_itself(house: House) -> None:
    principal = await house.principal()

    rotated = await house.first.access.rotate_key(principal, KeyId(principal.actor), overlap_s=0)

    successor = await house.first.access.authenticate(rotated.new.secret)
    assert successor.scopes == principal.scopes


@pytest.mark.parametrize("overlap_s", [-1, limits.KEY_OVERLAP_S_MAX + 1])
async def test_an_overlap_has_a_bound(house: House, overlap_s: int) -> None:
    principal = await house.principal()

    with pytest.raises(InvalidRequestError) as refused:
        await house.first.access.rotate_key(principal, KeyId(principal.actor), overlap_s=overlap_s)

    assert refused.value.field == "overlap_s"


async def test_only_an_administrator_rotates_keys(house: House) -> None:
    principal = await house.principal()
    reader = replace(principal, scopes=frozenset({"read", "write", "search", "delete"}))

    with pytest.raises(AccessDeniedError):
        await house.first.access.rotate_key(reader, KeyId(principal.actor))


async def test_an_account_is_deleted_by_its_name_alone_and_leaves_a_receipt(house: House) -> None:
    principal = await house.principal("acme")
    draft = MemoryDraft(content="tanuki are tricksters")
    await house.first.memories.store(principal, draft)

    with pytest.raises(InvalidRequestError) as refused:
        await house.first.account.delete_account(principal, organization="Acme")
    deleted = await house.first.account.delete_account(principal, organization="acme")

    assert refused.value.field == "organization"
    assert deleted.receipt.startswith("aud_")
    assert deleted.deleted_at == house.clock.now()
    assert deleted.removed == {
        "conversations": 0,
        "messages": 0,
        "memories": 1,
        "documents": 0,
        "content_bytes": len(draft.content),
        "keys": 1,
    }
