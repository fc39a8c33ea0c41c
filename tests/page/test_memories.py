"""The list of memories: filters in its address, and what is not valid any more."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab
from tests.page.test_episodes import new_episode


async def test_the_list_is_filtered_by_every_field_in_its_address(any_site: Site) -> None:
    await any_site.remember("Blue is for links", project="shop", tags=["design"], source="claude")
    await any_site.remember("Retry after 30 s", memory_type="error", category="technical")
    gone = await any_site.remember("The demo is on Friday", valid_to="2020-01-01T00:00:00Z")
    async with any_site.signed_in() as visitor:

        async def contents(query: str) -> list[str]:
            found = await visitor.get(f"/memories.json?{query}")
            return [each["content"] for each in found.json()["found"]["memories"]]

        assert await contents("") == ["Retry after 30 s", "Blue is for links"]
        assert await contents("project=shop") == ["Blue is for links"]
        assert await contents("tags=design&tags=other") == ["Blue is for links"]
        assert await contents("source=claude") == ["Blue is for links"]
        assert await contents("memory_type=error") == ["Retry after 30 s"]
        assert await contents("category=technical&project=shop") == []
        assert await contents("validity=not_now") == ["The demo is on Friday"]
        assert len(await contents("validity=any")) == 3
        page = await visitor.get("/memories?validity=any&project=default")
        assert f'href="/memories/{gone}"' in page.text
        assert "ended" in page.text
        assert (await visitor.get("/memories?validity=never")).status_code == 400


async def test_chips_take_filters_out_and_rows_open_by_keyboard(tab: Tab, site: Site) -> None:
    await site.remember("Blue is for links", project="shop", tags=["design"])
    memory_id = await site.remember("Retry after **30 s**", importance=1, memory_type="error")
    await tab.look("/memories?validity=any", name="memories")
    titles = tab.page.locator(".row-title")
    await tab.page.get_by_role("link", name="#design").click()
    await expect(titles).to_have_text(["Blue is for links"])

    await tab.page.get_by_title("Remove this filter").first.click()
    await tab.page.wait_for_url(f"{site.url}/memories")
    await tab.page.wait_for_load_state()
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("Enter")

    await tab.page.wait_for_url(f"{site.url}/memories/{memory_id}")
    await expect(tab.page.locator(".sheet strong")).to_have_text("30 s")


async def test_the_validity_is_shown_once(tab: Tab, site: Site) -> None:
    await site.remember("Blue is for links", project="shop")
    await tab.open("/memories?validity=any&project=shop")
    page = tab.page

    await expect(page.locator(".chip .quiet")).to_have_text(["project"])
    await expect(page.locator(".choices [aria-current]")).to_have_text("All")
    await expect(page.get_by_role("link", name="Change all 1 that match")).to_be_visible()
    await page.get_by_role("link", name="Change all 1 that match").click()
    await expect(page.locator(".chip .quiet")).to_have_text(["project", "validity"])


async def test_the_form_keeps_filters_that_it_does_not_show(tab: Tab, site: Site) -> None:
    await site.remember("Blue is for links", tags=["a", "b"])
    filters = f"validity=any&episode_id={await new_episode(site, 'Moving')}&tags=a&tags=b"
    await tab.open(f"/memories?{filters}")
    await tab.page.get_by_text("Filters", exact=True).click()

    await tab.page.get_by_role("button", name="Filter").click()

    fields = [each for each in tab.page.url.partition("?")[2].split("&") if each[-1] != "="]
    assert sorted(fields) == sorted(filters.split("&"))


async def test_an_empty_list_says_what_to_do_first(tab: Tab) -> None:
    await tab.look("/memories", name="memories-empty")

    await expect(tab.page.get_by_text("engram notes add")).to_be_visible()
    await tab.open("/memories?project=nowhere")
    await expect(tab.page.get_by_role("heading", name="No memory matches")).to_be_visible()


async def test_pages_follow_each_other(site: Site) -> None:
    async with site.client() as client:
        drafts = [{"content": f"number {place}"} for place in range(60)]
        await client.post("/api/v1/memories/batch", json={"memories": drafts})
    async with site.signed_in() as visitor:
        first = await visitor.get("/memories?source=manual")
        second = (await visitor.get("/memories.json?source=manual&offset=50")).json()["found"]

    assert 'href="/memories?source=manual&amp;offset=50"' in first.text
    assert [each["content"] for each in second["memories"]][-1] == "number 0"


async def test_a_found_memory_opens_without_javascript(browser: Browser, site: Site) -> None:
    memory_id = await site.remember("The queue retries after a timeout", project="shop")
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.open("/search?q=queue+retries+timeout")

        await tab.page.locator(".hit-title").first.click()

        await tab.page.wait_for_url(f"{site.url}/memories/{memory_id}")
        await expect(tab.page.get_by_text("retries after a timeout")).to_be_visible()
