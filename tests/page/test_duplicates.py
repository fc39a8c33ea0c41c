"""Near-duplicates: pairs side by side, merged and brought back."""

from __future__ import annotations

from playwright.async_api import expect

from tests.page.site import Site, Tab
from tests.rest.calls import scoped_key

SAID = (
    "The nightly backup of the customer database runs at two in the morning and is copied to the "
    "second site before four, where it is kept for ninety days and then removed without a trace {}"
)


async def test_a_pair_is_merged_and_taken_apart_again(tab: Tab, site: Site) -> None:
    older = await site.remember(SAID.format("<b>today</b>."), project="shop")
    newer = await site.remember(SAID.format("<b>always</b>."), project="shop")
    await site.remember("Ferns grow in the shade.", project="shop")
    await tab.look("/duplicates?project=shop", name="duplicates")
    page = tab.page
    await expect(page.locator(".difference del")).to_have_text(["today"])

    await page.get_by_role("button", name="Merge the pair").click()

    await page.get_by_text("1 pair is merged.").wait_for()
    await expect(page.get_by_role("heading", name="No near-duplicates in shop")).to_be_visible()
    async with site.signed_in() as visitor:

        async def is_forgotten(memory_id: str) -> bool:
            shown = (await visitor.get(f"/memories/{memory_id}.json")).json()
            return shown["memory"].get("forgotten", False)

        assert (await is_forgotten(older), await is_forgotten(newer)) == (True, False)
        await page.get_by_role("button", name="Undo").click()
        await page.get_by_text("1 memory is back.").wait_for()
        assert not await is_forgotten(older)


async def test_one_pair_is_merged_alone_and_brought_back(tab: Tab, site: Site) -> None:
    texts = (SAID, "Ferns grow in the deep shade behind the old house, where nobody mows them, {}")
    for text in texts:
        for end in ("today.", "always."):
            await site.remember(text.format(end), project="shop")
    page = tab.page
    await tab.look("/duplicates?project=shop", name="duplicates-two")
    await expect(page.locator(".hit-card")).to_have_count(2)

    await page.locator(".hit-card").filter(has_text="backup").get_by_role("button").click()

    await page.get_by_text("1 pair is merged.").wait_for()
    await expect(page.locator(".hit-card")).to_have_count(1)
    await expect(page.locator(".hit-card")).to_contain_text("Ferns")
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_text("1 memory is back.").wait_for()
    # What was taken apart is not proposed again.
    await expect(page.locator(".hit-card")).to_have_count(1)
    async with site.signed_in() as visitor:
        found = (await visitor.get("/memories.json?project=shop")).json()["found"]
        assert found["total"] == 4


async def test_duplicates_are_the_visitors_own_and_need_the_scopes(any_site: Site) -> None:
    older = await any_site.remember(SAID.format("today."))
    await any_site.remember(SAID.format("always."))
    async with any_site.client() as admin:
        reader = await scoped_key(admin, "read")
    async with any_site.signed_in(reader) as narrow:
        assert (await narrow.get("/duplicates")).status_code == 403
    async with any_site.signed_in() as owner:
        assert len((await owner.get("/duplicates.json")).json()["pairs"]) == 1
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        assert (await stranger.get("/duplicates.json")).json()["pairs"] == []
        fields = {"project": "default", "ids": older}
        assert (await stranger.post("/duplicates/undo", data=fields)).status_code == 404
