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


async def test_why_not_tells_bounds_from_relevance_and_leads_to_what_was_missed(
    any_site: Site,
) -> None:
    twice = "The invoice mail {} arrives twice." + " The invoice mail arrives twice." * 8
    first = [await any_site.remember(twice.format(number)) for number in range(4)][-1]
    last = await any_site.remember("Invoice mails arrive rarely, say people who get none of them.")
    same = await any_site.remember(f"{twice.format(3)} ", project="other")
    async with any_site.signed_in() as visitor:

        async def why(sought: str, address: str) -> dict[str, str]:
            asked = address if "why=" in address else f"{address}&why={sought}"
            found = await visitor.get(asked, headers={"Accept": "application/json"})
            return found.json()["why_not"]

        asked = "/search?q=invoice+mail+arrives+twice&min_score=0.01"
        for bound, word in (("limit=1", "so many results"), ("token_budget=110", "the tokens")):
            verdict = await why(last, f"{asked}&{bound}")
            assert word in verdict["verdict"], bound
            wider = await why(last, verdict["remedy"])
            assert "among the results" in wider["verdict"], bound
        verdicts = sorted([(await why(each, asked))["verdict"] for each in (first, same)])
        assert "among the results" in verdicts[0]
        assert "says the same" in verdicts[1]
        filtered = await why(f"{last}#1", asked.replace("0.01", "0") + "&tags=none")
        assert "filter leaves it out" in filtered["verdict"]
        assert "among the results" in (await why(last, filtered["remedy"]))["verdict"]


async def test_a_new_search_keeps_every_filter_of_the_last(tab: Tab, site: Site) -> None:
    filters = (
        "tags=a&tags=b&kinds=note&kinds=document&project=shop&since=2020-01-31&before=2031-01-31"
        "&min_score=0.5&profile=words&limit=7&token_budget=900&asked_at=2026-01-31"
    )
    await tab.open(f"/search?q=first&{filters}")
    await tab.page.get_by_label("Question or words").fill("second")

    await tab.page.get_by_role("button", name="Search").click()

    await tab.page.wait_for_url("**/search?q=second**")
    fields = [each for each in tab.page.url.partition("?")[2].split("&") if each[-1] != "="]
    assert sorted(fields) == sorted(["q=second", *filters.split("&")])


async def test_near_misses_are_called_by_what_they_say(site: Site) -> None:
    await site.remember("Ferns grow on the north side of the house.")
    async with site.signed_in() as visitor:
        found = await visitor.get("/search.json?q=expedition+to+the+north+pole+of+1911")

    assert [each["title"] for each in found.json()["near"]] == [
        "Ferns grow on the north side of the house."
    ]


async def test_searching_and_reading_work_without_javascript(browser: Browser, site: Site) -> None:
    await stored_talks(site)
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("searchbox").fill(QUESTION)
        await tab.page.keyboard.press("Enter")

        await tab.page.get_by_role("link", name="Invoice mails").first.click()

        assert await tab.page.get_by_text("arrive twice since Tuesday").is_visible()
