"""Search: filters in the address, why something was found, and why something was not."""

from __future__ import annotations

from playwright.async_api import Browser

from tests.page.site import Site, Tab, new_tab

QUESTION = "why do invoice mails arrive twice"


async def stored_talks(site: Site) -> str:
    await site.store("Ferns and hostas grow on the north side.", title="Garden")
    return await site.store(
        "Good morning.",
        "Why do invoice mails arrive twice since Tuesday?",
        "The worker retries after a timeout of 30 seconds.",
        title="Invoice mails",
        project="shop",
        tags=["mail"],
    )


async def test_a_result_says_why_and_opens_at_the_message(tab: Tab, site: Site) -> None:
    conversation_id = await stored_talks(site)
    await tab.open("/")
    await tab.page.keyboard.press("/")
    await tab.page.keyboard.type(QUESTION)
    await tab.page.keyboard.press("Enter")

    card = tab.page.locator(".hit-card").first
    await card.locator("summary").click()

    assert "words nearby" in await card.locator(".legs").inner_text()
    assert "tokens" in await card.inner_text()
    await card.get_by_role("link", name="Invoice mails").click()
    assert f"/conversations/{conversation_id}?at=2&hits=2" in tab.page.url
    assert await tab.page.locator("#m2").get_by_text("arrive twice").is_visible()
    await tab.look(f"/search?q={QUESTION.replace(' ', '+')}&project=shop", name="search")


async def test_filters_are_chips_in_the_address_and_can_be_taken_out(site: Site) -> None:
    await stored_talks(site)
    address = "/search.json?q=side+mails+grow&project=shop&tags=mail&since=2020-01-01&kinds=note"
    async with site.signed_in() as visitor:
        found = (await visitor.get(address)).json()

        assert [chip["value"] for chip in found["chips"]] == ["shop", "mail", "note", "2020-01-01"]
        assert found.get("hits", []) == []
        without = next(chip["without"] for chip in found["chips"] if chip["value"] == "note")
        wider = (await visitor.get(without, headers={"Accept": "application/json"})).json()
        assert {hit["result"]["conversation_title"] for hit in wider["hits"]} == {"Invoice mails"}


async def test_nothing_relevant_is_a_page_of_its_own_with_near_misses(tab: Tab, site: Site) -> None:
    await stored_talks(site)

    await tab.look("/search?q=north+pole+expedition+of+1911", name="search-nothing")

    page = tab.page
    assert await page.get_by_role("heading", name="Nothing relevant is remembered").is_visible()
    assert await page.get_by_role("heading", name="Near misses").is_visible()
    await page.get_by_role("link", name="Show what came nearest").click()
    assert await page.locator(".hit-card").get_by_text("Ferns and hostas").is_visible()


async def test_why_not_names_the_rank_the_filter_or_that_there_is_nothing(site: Site) -> None:
    conversation_id = await stored_talks(site)
    async with site.signed_in() as visitor:

        async def why(**query: str) -> str:
            asked = {"q": "north side", "why": conversation_id, **query}
            found = await visitor.get("/search.json", params=asked)
            return found.json()["why_not"]["verdict"]

        garden = "hostas grow on which side of Tuesday"
        assert "not relevant enough" in await why(q=garden)
        assert "among the results" in await why(q="invoice mails twice")
        assert "filter leaves it out" in await why(q="invoice mails", tags="garden")
        assert "not among" in await why(q="ferns")
        assert "nothing with this id" in await why(why="conv_" + "x" * 21)
        assert "Give the id" in await why(why="whatever")


async def test_searching_and_reading_work_without_javascript(browser: Browser, site: Site) -> None:
    await stored_talks(site)
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("searchbox").fill(QUESTION)
        await tab.page.keyboard.press("Enter")

        await tab.page.get_by_role("link", name="Invoice mails").first.click()

        assert await tab.page.get_by_text("arrive twice since Tuesday").is_visible()
