"""The trash: what is in it, back again, and gone for good."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab


async def trashed(site: Site, content: str) -> str:
    memory_id = await site.remember(content, project="shop")
    async with site.client() as client:
        await client.delete(f"/api/v1/memories/{memory_id}?undo=true")
    return memory_id


async def trashed_talk(site: Site, title: str) -> str:
    conversation_id = await site.store("one", "two", title=title)
    async with site.client() as client:
        await client.delete(f"/api/v1/conversations/{conversation_id}?undo=true")
    return conversation_id


async def test_what_was_deleted_is_restored_and_that_undone(tab: Tab, site: Site) -> None:
    await trashed(site, "The demo is on Friday")
    await trashed_talk(site, "<b>Plans</b>")
    await tab.look("/trash", name="trash")
    page = tab.page
    titles = page.locator(".row-title")
    await expect(titles).to_have_text(["<b>Plans</b>", "The demo is on Friday"])
    await expect(page.locator(".trash-row").first).to_contain_text("deleted by the key “first key”")

    await page.locator("li").filter(has_text="Plans").get_by_role("button", name="Restore").click()

    await expect(page.get_by_text("The conversation is back.")).to_be_visible()
    await expect(page.locator("#m2")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_text("The conversation with its 2 messages is in the trash.").wait_for()
    await tab.open("/trash?kind=memory")
    await expect(titles).to_have_text(["The demo is on Friday"])


async def test_one_is_removed_for_good_after_a_question(tab: Tab, site: Site) -> None:
    memory_id = await trashed(site, "The demo is on Friday")
    await trashed(site, "Another")
    await tab.look(f"/trash/{memory_id}/remove", name="trash-remove")
    await expect(tab.page.get_by_text("The demo is on Friday")).to_be_visible()

    await tab.page.get_by_role("button", name="Remove it for good").click()

    await expect(tab.page.locator(".row-title")).to_have_text(["Another"])
    async with site.signed_in() as visitor:
        assert (await visitor.get(f"/trash/{memory_id}/remove")).status_code == 404
        again = await visitor.post("/trash/restore", data={"id": memory_id})
        assert again.status_code == 404


async def test_emptying_shows_counts_before(browser: Browser, site: Site) -> None:
    for place in range(3):
        await trashed(site, f"number {place}")
    await trashed_talk(site, "Plans")
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.open("/trash")
        await tab.page.get_by_role("link", name="Empty the trash").click()
        await expect(tab.page.locator(".facts")).to_contain_text("1 conversation")
        await expect(tab.page.locator(".facts")).to_contain_text("3 memories")

        await tab.page.get_by_role("button", name="Remove 4 for good").click()

        await expect(tab.page.get_by_text("4 removed for good.")).to_be_visible()
        await expect(tab.page.get_by_role("heading", name="The trash is empty")).to_be_visible()


async def test_another_tenant_neither_sees_nor_restores_nor_removes(any_site: Site) -> None:
    memory_id = await trashed(any_site, "a secret")
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        assert "secret" not in (await stranger.get("/trash")).text
        assert (await stranger.get(f"/trash/{memory_id}/remove")).status_code == 404
        for path, fields in (
            ("/trash/restore", {"id": memory_id}),
            (f"/trash/{memory_id}/remove", {}),
        ):
            assert (await stranger.post(path, data=fields)).status_code == 404
        await stranger.post("/trash/empty")
    async with any_site.signed_in() as owner:
        assert "a secret" in (await owner.get("/trash")).text
