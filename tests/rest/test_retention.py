"""Retention and legal holds over REST: rules of administrators, applied in the background."""

from __future__ import annotations

from datetime import timedelta

import httpx
from dirty_equals import IsPartialDict

from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import append, new_conversation, refusal, stored

RETENTION = "/api/v1/retention"
HOLDS = "/api/v1/holds"


@promise("retention")
async def test_a_rule_is_counted_by_a_dry_run_and_applied_in_the_background(
    api: httpx.AsyncClient, settings: Settings, clock: FakeClock
) -> None:
    await append(api, await new_conversation(api, project="scratch"), "one", "two")
    await append(api, await new_conversation(api, project="books"), "three")

    rule = (await api.post(RETENTION, json={"keep": "12w", "project": "scratch"})).json()
    clock.advance(timedelta(weeks=12))
    tried = (await api.post(f"{RETENTION}/run", json={"dry_run": True})).json()
    before = await stored(api)
    async with open_service(settings, clock=clock) as service:
        await service.background.take_due()
        done = await service.background.visit_queued()

    assert (rule["keep_days"], before, done) == (84, (2, 3), 1)
    assert tried == IsPartialDict(conversations=1, messages=2, dry_run=True)
    assert await stored(api) == (1, 1)
    removed = (await api.delete(f"{RETENTION}/{rule['id']}")).json()
    assert (removed["id"], (await api.get(RETENTION)).json()) == (rule["id"], {"rules": []})


@promise("clear")
async def test_a_rule_that_cannot_be_meant_is_refused(api: httpx.AsyncClient) -> None:
    for keep in ("90", "0d", "5 days", "200y"):
        refused = await api.post(RETENTION, json={"keep": keep})
        assert refusal(refused) == (400, "invalid_request", "keep")


@promise("holds")
async def test_a_refusal_names_the_hold_and_an_account_with_one_stays(
    api: httpx.AsyncClient,
) -> None:
    conversation_id = await new_conversation(api)
    hold = (await api.post(HOLDS, json={"reason": "Smith v. Acme"})).json()

    refused = await api.delete(f"/api/v1/conversations/{conversation_id}?undo=true")
    account = await api.request("DELETE", "/api/v1/account", json={"organization": "acme"})
    lifted = await api.delete(f"{HOLDS}/{hold['id']}")
    deleted = await api.delete(f"/api/v1/conversations/{conversation_id}")

    assert refusal(refused)[:2] == refusal(account)[:2] == (409, "held")
    assert (hold["id"] in refused.json()["detail"], lifted.is_success) == (True, True)
    assert deleted.is_success
