"""Usage: quota with its line, what was done by day as charts and as a table, and search times."""

from __future__ import annotations

from datetime import timedelta

import httpx
from playwright.async_api import Browser, expect

from engram.clock import SystemClock
from engram.embedding.choice import Hashed
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.value import replace
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.page.site import Site, Tab, new_tab
from tests.page.test_seen import ask
from tests.rest.calls import ADMIN_TOKEN, scoped_key


async def bound(site: Site, **quota: int) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    async with httpx.AsyncClient(base_url=site.url, headers=headers) as operator:
        listed = (await operator.get("/admin/organizations")).json()["organizations"]
        acme = next(each["id"] for each in listed if each["name"] == "acme")
        changed = await operator.patch(f"/admin/organizations/{acme}", json=quota)
        assert changed.status_code == 200, changed.text


async def work(site: Site) -> None:
    """Search in another process, which writes down what it has counted when it ends."""
    async with open_service(site.settings) as service:
        me = await service.access.authenticate(site.key)
        for _ in range(3):
            service.access.take_request(me)
        said = MessageDraft(role="user", content="counted")
        for _ in range(2):
            request = AppendRequest(messages=(said, said))
            await service.conversations.append_messages(me, request)
        await service.record_use()


async def wait_for_vectors(site: Site, *contents: str, stored: timedelta) -> None:
    """Store messages a while ago, with an embedder that has not worked since."""
    settings = replace(site.settings, embedder=Hashed())
    clock = FakeClock(SystemClock().now() - stored)
    async with open_service(settings, clock=clock) as service:
        me = await service.access.authenticate(site.key)
        said = tuple(MessageDraft(role="user", content=content) for content in contents)
        await service.conversations.append_messages(me, AppendRequest(messages=said))


async def test_the_lag_of_the_index_has_a_number_and_an_age(any_site: Site) -> None:
    async with any_site.signed_in() as visitor:
        idle = (await visitor.get("/usage.json")).json()
        await wait_for_vectors(any_site, "one", "two", stored=timedelta(hours=3))
        await wait_for_vectors(any_site, "three", stored=timedelta(minutes=5))
        behind = (await visitor.get("/usage.json")).json()
        shown = (await visitor.get("/usage")).text

    assert (idle["pending"], idle["pending_since"]) == (0, None)
    assert behind["pending"] == 3
    assert ">3 h ago</time>" in shown
    async with any_site.client() as api:
        status = (await api.get("/api/v1/status")).json()
    assert status["pending_since"] == behind["pending_since"]


async def test_the_lag_stands_beside_its_chart(tab: Tab, site: Site) -> None:
    await wait_for_vectors(site, "one", "two", stored=timedelta(hours=3))
    await work(site)

    await tab.look("/usage", name="usage-behind")

    lag = tab.page.locator(".lag")
    await expect(lag.get_by_role("definition")).to_have_text(["2", "3 h ago"])


async def test_usage_is_counted_by_day_without_gaps(any_site: Site) -> None:
    await any_site.store("The worker retries.", "So it does.", title="Mails")
    await ask(any_site, "worker")
    await work(any_site)
    async with any_site.signed_in() as visitor:
        found = (await visitor.get("/usage.json")).json()
        given = (await visitor.get("/seen.json")).json()["items"]

    assert found["messages"] == 6
    assert sum(day["messages"] for day in found["days"]) >= 4
    assert len(found["days"]) == 30
    assert len({day["day"] for day in found["days"]}) == 30
    assert sum(day["requests"] for day in found["days"]) >= 3
    tokens = sum(item["delivery"]["tokens"] for item in given)
    assert sum(day["tokens"] for day in found["days"]) == tokens > 0
    times = found["times"]
    assert times["searches"] == 3
    assert 0 < times["p50_ms"] <= times["p95_ms"] <= times["p99_ms"]
    assert [each["most"] for each in found["bounds"]] == [None, None]


async def test_times_and_usage_are_the_organisations_own(site: Site) -> None:
    await ask(site, "worker")
    async with site.signed_in(await site.new_organization("other")) as stranger:
        found = (await stranger.get("/usage.json")).json()

    assert found["times"] is None
    assert {day["tokens"] for day in found["days"]} == {0}


async def test_a_quota_has_its_line_and_says_when_it_is_near(tab: Tab, site: Site) -> None:
    await site.store(*["one of many"] * 5, title="Many")
    await work(site)
    await ask(site, "many")
    await tab.look("/usage", name="usage-unbounded")
    await bound(site, messages_max=10, bytes_max=1_000_000)

    await tab.look("/usage", name="usage")

    await expect(tab.page.locator(".quota").first).to_contain_text("9 of 10")
    await expect(tab.page.locator(".quota").first).to_contain_text("most of it is used")
    await expect(tab.page.locator(".quota").last).not_to_contain_text("most of it is used")
    await expect(tab.page.locator(".chart canvas")).to_have_count(6)
    await tab.page.get_by_text("The numbers").click()
    await expect(tab.page.locator("#days").get_by_role("row")).to_have_count(31)


async def test_the_numbers_are_there_without_javascript(browser: Browser, site: Site) -> None:
    await work(site)
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("link", name="Usage").click()
        await tab.page.get_by_text("The numbers").click()

        await expect(tab.page.get_by_role("row")).to_have_count(31)
        await expect(tab.page.locator(".chart").first).to_be_hidden()


async def test_usage_needs_a_key_that_reads(site: Site) -> None:
    async with site.client() as admin:
        writing = await scoped_key(admin, "write")
    async with site.signed_in(writing) as writer:
        assert (await writer.get("/usage")).status_code == 403
        assert 'href="/usage"' not in (await writer.get("/")).text
