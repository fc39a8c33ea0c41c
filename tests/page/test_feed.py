"""The feed: what was stored last, filtered by its address, and live."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import httpx
from playwright.async_api import Route, expect

from engram.settings import Settings
from tests.page.site import Site, Tab, running_site
from tests.rest.calls import scoped_key


async def store_note(site: Site, content: str, **fields: str) -> str:
    async with site.client() as client:
        stored = await client.post("/api/v1/notes", json={"content": content, **fields})
        return stored.json()["id"]


async def capture(site: Site, *contents: str) -> None:
    messages = [
        {"role": "user", "content": content, "original_id": str(place)}
        for place, content in enumerate(contents)
    ]
    described = {
        "title": "Captured talk",
        "agent_id": "claude",
        "project": "shop",
        "metadata": {"source": "claude", "session": "s1"},
    }
    async with site.client() as client:
        body = {
            "source": "claude",
            "session": "s1",
            "messages": messages,
            "conversation": described,
        }
        answer = await client.post("/api/v1/capture", json=body)
        assert answer.status_code == 200, answer.text


async def test_the_feed_is_newest_first_and_filtered_by_project_client_kind_and_way(
    any_site: Site,
) -> None:
    await any_site.store("by hand", title="Talk by hand")
    await capture(any_site, "first", "second")
    await store_note(any_site, "The demo is on Friday.", project="shop")
    async with any_site.signed_in() as visitor:

        async def shown(**query: str) -> list[str]:
            found = (await visitor.get("/feed.json", params=query)).json()
            return [item["title"] or item["text"] for item in found["items"]]

        note, captured, hand = "The demo is on Friday.", "Captured talk", "Talk by hand"
        assert await shown() == [note, captured, hand]
        assert await shown(project="shop") == [note, captured]
        assert await shown(client="claude") == [captured]
        assert await shown(kind="memory") == [note]
        assert await shown(way="captured") == [captured]
        assert await shown(way="hand", kind="conversation") == [hand]
        found = (await visitor.get("/feed.json", params={"client": "claude"})).json()["items"][0]
        assert (found["text"], found["messages"], found["way"]) == ("second", 2, "captured")
        assert (await visitor.get("/feed.json?kind=video")).status_code == 400
        narrowed = (await visitor.get("/feed?way=captured")).text
        assert 'href="/feed?way=captured&amp;project=shop"' in narrowed


async def test_what_another_writer_stores_appears_by_itself(tab: Tab, site: Site) -> None:
    await tab.look("/feed", name="feed-empty")
    await tab.open("/feed")
    await expect(tab.page.get_by_text("live", exact=True)).to_be_visible()

    conversation_id = await site.store("just said", title="A new talk")
    await expect(tab.page.get_by_role("link", name="A new talk")).to_be_visible()
    await store_note(site, "Ana prefers small pull requests. <script>1</script>")
    await expect(tab.page.locator("#feed > li")).to_have_count(2)

    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url(f"**/conversations/{conversation_id}*")
    await tab.look("/feed", name="feed")


async def test_a_feed_is_live_however_slowly_its_scripts_arrive(tab: Tab) -> None:
    async def delay(route: Route) -> None:
        await anyio.sleep(0.3)
        await route.continue_()

    await tab.page.route("**/vendor/hx-*", delay)
    await tab.open("/feed")

    await expect(tab.page.get_by_text("live", exact=True)).to_be_visible()


async def test_a_stream_ends_with_its_key(site: Site) -> None:
    async with site.client() as admin, site.signed_in(await scoped_key(admin, "read")) as visitor:
        with anyio.fail_after(60):
            async with visitor.stream("GET", "/feed/live") as stream:
                lines = stream.aiter_lines()
                assert (await anext(lines)).startswith("data: ")
                keys = (await admin.get("/api/v1/keys")).json()["keys"]
                narrow = next(key["id"] for key in keys if key["name"] == "narrow")

                await admin.delete(f"/api/v1/keys/{narrow}")

                async for _ in lines:
                    pass
        refused: httpx.Response = await visitor.get("/feed/live")
        assert refused.status_code == 401


async def test_a_stream_ends_whole_when_the_server_stops(settings: Settings) -> None:
    async with AsyncExitStack() as stack, AsyncExitStack() as server:
        site = await server.enter_async_context(running_site(settings))
        visitor = await stack.enter_async_context(site.signed_in())
        stream = await stack.enter_async_context(visitor.stream("GET", "/feed/live"))
        lines = stream.aiter_lines()
        assert (await anext(lines)).startswith("data: ")

        with anyio.fail_after(60):
            await server.aclose()

        # A stream that was cut off instead would be an error of the protocol.
        assert all([line.startswith((":", "data: ")) or not line async for line in lines])


async def test_the_keys_of_the_page_are_listed(tab: Tab) -> None:
    await tab.open("/")
    await tab.page.keyboard.press("?")

    await expect(tab.page.get_by_role("heading", name="Keys")).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.get_by_role("heading", name="Keys")).to_be_hidden()
