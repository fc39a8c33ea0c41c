"""What the agent saw: reminders and answers of tools, filtered, and the preview of a prompt."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from engram.model.reminder import Delivery
from engram.model.value import replace
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import SOME_DAY
from tests.mcp.connecting import http_client
from tests.page.site import Site, Tab, new_tab, running_site
from tests.page.test_feed import capture
from tests.page.test_safety import HOSTILE
from tests.rest.calls import scoped_key

ANSWER = "The worker retries after a timeout of 30 seconds."
QUESTION = "Why do invoice mails arrive twice since Tuesday?"


async def remind(site: Site, *shown: str, client: str = "claude", session: str = "s1") -> None:
    """Note a reminder as the hook of a session does, in a process of its own."""
    async with open_service(site.settings) as service:
        me = await service.access.authenticate(site.key)
        told = Delivery(
            at=SOME_DAY,
            client=client,
            session=session,
            event="prompt",
            query="0123456789abcdef",
            shown=shown,
            bytes=900,
            tokens=210,
        )
        await service.search.record_delivery(me, told)


async def ask(site: Site, query: str) -> None:
    """Call the tools that deliver, as an agent does."""
    async with http_client(site.url, site.key) as agent:
        await agent.call_tool("search", {"query": query})
        await agent.call_tool("fetch_context", {"query": query})
        await agent.call_tool("memory_recall", {"query": query})


async def store_memory(site: Site, content: str) -> str:
    async with site.client() as client:
        return (await client.post("/api/v1/memories", json={"content": content})).json()["id"]


async def test_reminders_and_answers_of_tools_are_listed_with_what_they_showed(
    any_site: Site,
) -> None:
    conversation_id = await any_site.store(QUESTION, ANSWER, title="Mails")
    memory_id = await store_memory(any_site, "Invoice mails are sent by the worker.")
    await remind(any_site, f"{conversation_id}#2", memory_id, "msg_of_an_older_version")
    await ask(any_site, "invoice mails worker")
    async with any_site.signed_in() as visitor:

        async def shown(**query: str) -> list[str]:
            found = (await visitor.get("/seen.json", params=query)).json()
            return [item["delivery"]["event"] for item in found["items"]]

        everything = (await visitor.get("/seen.json")).json()["items"]
        html = (await visitor.get("/seen")).text

        assert await shown(kind="reminders") == ["prompt"]
        assert await shown(kind="searches") == ["search"]
        assert await shown(kind="recalls") == ["memory_recall"]
        assert await shown(client="claude") == ["prompt"]
        assert (await visitor.get("/seen.json?kind=video")).status_code == 400
    tools = [item for item in everything if item["delivery"]["event"] != "prompt"]
    assert {item["query"] for item in tools} == {"invoice mails worker"}
    assert all(item["delivery"]["tokens"] > 0 for item in tools)
    places = {place["link"]: place["sequences"] for item in tools for place in item["places"]}
    assert 1 in places[f"/conversations/{conversation_id}"]
    assert f"/memories/{memory_id}" in places
    reminder = next(item for item in everything if item["delivery"]["event"] == "prompt")
    assert [(place["link"], place["sequences"]) for place in reminder["places"]] == [
        (f"/conversations/{conversation_id}", [2]),
        (f"/memories/{memory_id}", []),
        (None, []),
    ]
    assert "msg_of_an_older_version" in html


async def test_a_reminder_leads_to_the_session_that_got_it(site: Site) -> None:
    await capture(site, "first", "second")
    await remind(site)
    await remind(site, session="never captured")
    async with site.signed_in() as visitor:
        found = (await visitor.get("/seen.json")).json()["items"]

        link = found[1]["session_link"]
        assert "session_link" not in found[0]
        assert "Captured talk" in (await visitor.get(link)).text


async def test_older_rows_are_on_further_pages(site: Site) -> None:
    for place in range(27):
        await remind(site, session=f"s{place}")
    async with site.signed_in() as visitor:
        first = (await visitor.get("/seen.json")).json()
        second = (await visitor.get("/seen.json", params={"before": first["next_before"]})).json()

    sessions = [item["delivery"]["session"] for item in [*first["items"], *second["items"]]]
    assert sessions == [f"s{place}" for place in reversed(range(27))]
    assert "next_before" not in second


async def test_a_preview_says_what_an_agent_would_get_or_why_nothing(tab: Tab, site: Site) -> None:
    await tab.look("/seen", name="seen-empty")
    await site.store(QUESTION, ANSWER, title="Mails")
    page = tab.page
    await tab.open("/seen")
    await page.get_by_label("Prompt").fill("invoice mails arrive twice since Tuesday, why?")
    await page.get_by_role("button", name="Preview").click()

    await expect(page.locator(".given")).to_contain_text("<memory_context>")
    await expect(page.locator(".given")).to_contain_text("invoice mails arrive twice")
    await page.get_by_role("link", name="#1", exact=True).click()
    await expect(page.locator("#m1")).to_contain_text(QUESTION)
    await tab.open("/seen?prompt=go+on")
    await expect(page.get_by_text("It would get nothing.")).to_be_visible()
    await tab.open("/seen?prompt=")
    await expect(page.locator(".given")).to_contain_text("Mails")
    async with site.client() as client:
        assert (await client.get("/api/v1/deliveries")).json()["deliveries"] == []


async def test_what_agents_saw_is_shown_to_people_of_every_screen(tab: Tab, site: Site) -> None:
    conversation_id = await site.store(QUESTION, ANSWER, title="Mails")
    await remind(site, *(f"{conversation_id}#{place}" for place in range(1, 9)))
    await ask(site, "invoice mails worker")
    await ask(site, "north pole expedition")

    await tab.look("/seen", name="seen")
    await tab.look("/seen?prompt=invoice+mails+arrive+twice", name="seen-preview")
    await tab.open("/seen?kind=searches")
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url("**/conversations/**")


async def test_questions_and_clients_that_want_to_act_are_text(tab: Tab, site: Site) -> None:
    for text in HOSTILE:
        await ask(site, text)
    await remind(site, '"><script>window.acted=1</script>', client=HOSTILE[0])
    for path in ("/seen", f"/seen?client={HOSTILE[0]}", f"/seen?prompt={HOSTILE[1]}"):
        await tab.open(path)

        assert await tab.page.evaluate("window.acted") is None, path
        assert await tab.page.locator("main script, main img, main [hx-get]").count() == 0


async def test_scopes_and_organisations_rule_what_is_seen(site: Site) -> None:
    await remind(site, "mem_secret")
    async with site.client() as admin:
        reading, searching = await scoped_key(admin, "read"), await scoped_key(admin, "search")
    async with site.signed_in(reading) as reader, site.signed_in(searching) as searcher:
        assert "mem_secret" in (await reader.get("/seen")).text
        assert "Preview" not in (await reader.get("/seen?prompt=whatever")).text
        assert (await searcher.get("/seen")).status_code == 403
    async with site.signed_in(await site.new_organization("other")) as stranger:
        assert (await stranger.get("/seen.json")).json()["items"] == []


async def test_a_preview_works_without_javascript(browser: Browser, site: Site) -> None:
    await site.store(QUESTION, ANSWER, title="Mails")
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("link", name="What agents saw").click()
        await tab.page.get_by_label("Prompt").fill(QUESTION + " I wonder.")
        await tab.page.get_by_role("button", name="Preview").click()

        assert QUESTION in await tab.page.locator(".given").inner_text()


async def test_searches_by_rest_are_listed_with_their_client(any_site: Site) -> None:
    conversation_id = await any_site.store(QUESTION, ANSWER, title="Mails")
    headers = {"User-Agent": "shop-bot/2.1 (linux)"}
    async with any_site.client() as client:
        body = {"query": "invoice mails"}
        for path in ("/api/v1/search", "/api/v1/context", "/api/v1/memories/recall"):
            assert (await client.post(path, json=body, headers=headers)).status_code == 200
        await client.get("/api/v1/search", params={"q": "timeout"}, headers={"User-Agent": ""})
        await client.get(f"/api/v1/conversations/{conversation_id}")
    async with any_site.signed_in() as visitor:
        await visitor.get("/search", params={"q": "what people search is no delivery"})
        found = (await visitor.get("/seen.json")).json()["items"]
        bots = (await visitor.get("/seen.json", params={"client": "shop-bot"})).json()["items"]

    assert [(each["delivery"]["client"], each["delivery"]["event"]) for each in found] == [
        ("rest", "search"),
        ("shop-bot", "memory_recall"),
        ("shop-bot", "fetch_context"),
        ("shop-bot", "search"),
    ]
    assert [each["query"] for each in bots] == ["invoice mails"] * 3
    assert found[0]["delivery"]["tokens"] > 0
    assert conversation_id in str(found[3]["places"])


async def test_a_log_that_is_off_notes_no_search(settings: Settings) -> None:
    async with running_site(replace(settings, hook_log="off")) as quiet:
        async with quiet.client() as client:
            await client.get("/api/v1/search", params={"q": "timeout"})
        async with quiet.signed_in() as visitor:
            assert (await visitor.get("/seen.json")).json()["items"] == []
