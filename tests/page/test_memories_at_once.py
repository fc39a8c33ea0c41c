"""Many memories at once: counts before, the bound, and undo after."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from engram import limits
from tests.page.site import Site, Tab


async def remember(site: Site, count: int, **fields: Any) -> list[str]:
    drafts = [{"content": f"number {place}", **fields} for place in range(count)]
    async with site.client() as client:
        made = await client.post("/api/v1/memories/batch", json={"memories": drafts})
        return made.json()["ids"]


async def listed(visitor: httpx.AsyncClient, query: str = "") -> list[dict[str, Any]]:
    return (await visitor.get(f"/memories.json?{query}")).json()["found"]["memories"]


async def test_what_a_filter_selects_goes_to_the_trash_and_comes_back(tab: Tab, site: Site) -> None:
    await remember(site, 12, project="shop")
    await site.remember("kept")
    fixed = await site.remember("fixed", project="shop", immutable=True)
    await tab.open("/memories?project=shop")
    await tab.page.get_by_role("link", name="Change all 13 that match").click()
    await tab.look("/memories/change?project=shop", name="memories-at-once")
    await expect(tab.page.get_by_text("1 immutable, which will stay")).to_be_visible()

    await tab.page.get_by_role("button", name="Move 13 to the trash").click()

    await tab.page.get_by_text("12 memories are in the trash. 1 could not be changed.").wait_for()
    async with site.signed_in() as visitor:
        assert [each["content"] for each in await listed(visitor)] == ["fixed", "kept"]
        await tab.page.wait_for_load_state()
        await tab.page.keyboard.press("u")
        await tab.page.get_by_text("12 memories are as before.").wait_for()
        assert len(await listed(visitor, "project=shop")) == 13
        trash = (await visitor.get("/trash.json")).json()["found"]
        assert (trash["total"], fixed in str(await listed(visitor))) == (0, True)


async def test_the_selected_alone_become_less_important(tab: Tab, site: Site) -> None:
    await remember(site, 4)
    await tab.open("/memories")
    page = tab.page
    await tab.page.wait_for_load_state()
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await page.get_by_label("Select: number 1").check()
    await tab.page.get_by_role("button", name="Change the selected").click()
    await page.get_by_role("heading", name="Change 2 memories").wait_for()
    await page.get_by_label("Importance").select_option("trivial")

    await page.get_by_role("button", name="Set for 2").click()

    await page.get_by_text("2 memories are of trivial importance now.").wait_for()
    async with site.signed_in() as visitor:
        assert [each["importance"] for each in await listed(visitor)] == [4, 2, 4, 2]
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_text("2 memories are as before.").wait_for()
        assert [each["importance"] for each in await listed(visitor)] == [2, 2, 2, 2]


async def test_undo_leaves_alone_what_others_deleted_or_changed(any_site: Site) -> None:
    mine, theirs = await remember(any_site, 2, project="shop")
    async with any_site.client() as client:
        await client.delete(f"/api/v1/memories/{theirs}?undo=true")
    async with any_site.signed_in() as visitor:
        done = await visitor.post("/memories/change?project=shop", data={"change": "trash"})
        assert done.status_code == 303
        shown = await visitor.get(done.headers["location"])
        fields = dict(hidden_fields(shown.text))

        await visitor.post("/memories/change/undo?project=shop", data=fields)

        assert [each["id"] for each in await listed(visitor, "project=shop")] == [mine]


async def test_undo_leaves_alone_what_the_same_key_changed_in_the_same_moments(
    any_site: Site,
) -> None:
    await remember(any_site, 2, project="shop")
    await remember(any_site, 2, project="attic")
    async with any_site.signed_in() as visitor:
        done = await visitor.post(
            "/memories/change?project=shop", data={"change": "importance", "importance": "4"}
        )
        shown = await visitor.get(done.headers["location"])
        # Another tab of the same visitor, before the first one's undo.
        change = {"change": "importance", "importance": "4"}
        await visitor.post("/memories/change?project=attic", data=change)

        await visitor.post("/memories/change/undo", data=dict(hidden_fields(shown.text)))

        found = {(each["project"], each["importance"]) for each in await listed(visitor)}
        assert found == {("shop", 2), ("attic", 4)}
        again = await visitor.post("/memories/change/undo", data=dict(hidden_fields(shown.text)))
        assert again.status_code == 404
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        fields = dict(hidden_fields(shown.text))
        assert (await stranger.post("/memories/change/undo", data=fields)).status_code == 404


def hidden_fields(html: str) -> list[tuple[str, str]]:
    """Return the hidden fields of the notice's form."""
    notice = html.partition('class="notice"')[2].partition("</form>")[0]
    parts = notice.split('<input type="hidden" name="')[1:]
    return [(part.split('"')[0], part.split('value="')[1].split('"')[0]) for part in parts]


async def test_one_step_is_bounded_and_says_how_many_are_left(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEMORIES_CHANGED_MAX", 3)
    await remember(site, 5)
    async with site.signed_in() as visitor:
        asked = await visitor.get("/memories/change")
        assert "Move 3 to the trash" in asked.text
        assert 'of <b class="num">5</b> that match' in asked.text
        for importance_left in (2, 0):
            await visitor.post("/memories/change", data={"change": "importance", "importance": "4"})
            found = [each["importance"] for each in await listed(visitor)]
            assert found.count(2) == importance_left


async def test_refusals_name_the_field(site: Site) -> None:
    await remember(site, 1)
    async with site.signed_in() as visitor:
        for fields, field in (
            ({"change": "colour"}, "change"),
            ({"change": "importance", "importance": "9"}, "importance"),
            ({}, "change"),
        ):
            refused = await visitor.post("/memories/change", data=fields)
            assert (refused.status_code, f"<code>{field}</code>" in refused.text) == (400, True)
