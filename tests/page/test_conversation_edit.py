"""Editing a conversation in the reader: what changes, what stays, and the undo."""

from __future__ import annotations

import json
from typing import Any

import httpx
from playwright.async_api import Browser, expect

from tests.page.site import SCREENSHOTS, Site, Tab, new_tab, violations
from tests.rest.calls import scoped_key


async def edited(visitor: httpx.AsyncClient, conversation_id: str) -> dict[str, Any]:
    shown = (await visitor.get(f"/conversations/{conversation_id}.json")).json()["conversation"]
    return {name: shown.get(name) for name in ("title", "tags", "project")}


async def test_a_conversation_is_edited_where_it_is_read_and_the_edit_undone(
    tab: Tab, site: Site
) -> None:
    conversation_id = await site.store("one", title="Mials", project="shop", tags=["mail", "old"])
    page = tab.page
    await tab.open(f"/conversations/{conversation_id}")
    await page.get_by_text("Edit title, tags and project").focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Title")).to_be_focused()
    await page.keyboard.type("Mails")
    await page.get_by_label("Tags").fill("mail\nnew tag")
    await page.get_by_label("Project").fill("store")

    await page.get_by_label("Project").press("Enter")

    await expect(page.get_by_text("Changed the title, tags and project.")).to_be_visible()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mails")
    await expect(page.locator(".facts .tag")).to_have_text(["store", "#mail", "#new tag"])
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Mials")
    await expect(page.locator(".facts .tag")).to_have_text(["shop", "#mail", "#old"])


async def test_an_edit_without_javascript_can_remove_a_title_and_all_tags(
    browser: Browser, site: Site
) -> None:
    conversation_id = await site.store("one", title="Mails", tags=["mail"])
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.open(f"/conversations/{conversation_id}")
        await tab.page.get_by_text("Edit title, tags and project").click()
        await tab.page.get_by_label("Title").fill("")
        await tab.page.get_by_label("Tags").fill("")
        await tab.page.get_by_role("button", name="Save").click()

        await expect(tab.page.get_by_role("heading", level=1)).to_have_text("Untitled conversation")
        await expect(tab.page.locator(".facts .tag")).to_have_text(["default"])
        await tab.page.get_by_role("button", name="Undo").click()
        await expect(tab.page.get_by_role("heading", level=1)).to_have_text("Mails")
        await expect(tab.page.locator(".facts .tag")).to_have_text(["default", "#mail"])


async def test_a_title_of_two_lines_stays_if_only_the_tags_are_edited(tab: Tab, site: Site) -> None:
    conversation_id = await site.store("one", title="Two\nlines", tags=["a"])
    page = tab.page
    await tab.open(f"/conversations/{conversation_id}")
    await page.get_by_text("Edit title, tags and project").click()
    await expect(page.get_by_label("Title")).to_have_value("Two lines")
    await page.get_by_label("Tags").fill("b")
    await page.get_by_role("button", name="Save").click()

    await expect(page.get_by_text("Changed the tags.")).to_be_visible()
    async with site.signed_in() as visitor:
        assert (await edited(visitor, conversation_id))["title"] == "Two\nlines"


async def test_what_a_form_cannot_show_stays_unless_it_is_changed(any_site: Site) -> None:
    before: dict[str, Any] = {
        "title": " Two\nlines  here ",
        "tags": [" a b ", "c"],
        "project": " shop ",
    }
    conversation_id = await any_site.store("one", **before)
    here = f"/conversations/{conversation_id}"
    async with any_site.signed_in() as visitor:
        as_shown = {"title": "Two lines here", "tags": " a b \r\nc", "project": " shop "}
        same = await visitor.post(f"{here}/edit", data=as_shown)
        assert "Nothing was changed" in (await visitor.get(same.headers["location"])).text
        assert await edited(visitor, conversation_id) == before

        await visitor.post(f"{here}/edit", data={**as_shown, "tags": "c"})
        assert await edited(visitor, conversation_id) == {**before, "tags": ["c"]}
        await visitor.post(f"{here}/edit", data={**as_shown, "title": "One", "tags": "c"})
        await visitor.post(
            f"{here}/restore",
            data={"before": json.dumps({"title": before["title"], "tags": before["tags"]})},
        )
        assert await edited(visitor, conversation_id) == before


async def test_tags_too_long_for_a_notice_are_restored_all_the_same(tab: Tab, site: Site) -> None:
    tags = [f"{number:02}{'x' * 250}" for number in range(50)]
    conversation_id = await site.store("one", title="Mails", tags=tags)
    page = tab.page
    await tab.open(f"/conversations/{conversation_id}")
    await page.get_by_text("Edit title, tags and project").click()
    await page.get_by_label("Tags").fill("")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("The conversation is edited")

    await page.get_by_role("button", name="Undo").click()

    await expect(page.locator(".facts .tag")).to_have_count(51)


async def test_an_edit_needs_scopes_and_a_conversation_of_ones_own(site: Site) -> None:
    conversation_id = await site.store("one", title="Mails")
    change = {"title": "Mine", "tags": "", "project": "default"}
    here = f"/conversations/{conversation_id}"
    async with site.client() as admin:
        reading, writing = await scoped_key(admin, "read"), await scoped_key(admin, "write")
    async with site.signed_in(reading) as reader, site.signed_in(writing) as writer:
        assert "/edit" not in (await reader.get(here)).text
        assert (await reader.post(f"{here}/edit", data=change)).status_code == 403
        assert (await reader.post(f"{here}/restore", data={"before": "{}"})).status_code == 403
        assert (await writer.post(f"{here}/edit", data=change)).status_code == 403
    async with site.signed_in(await site.stranger_key()) as stranger:
        assert (await stranger.post(f"{here}/edit", data=change)).status_code == 404
    async with site.signed_in() as visitor:
        foreign = {"Origin": "https://evil.example"}
        refused = await visitor.post(f"{here}/edit", data=change, headers=foreign)
        assert refused.status_code == 403
        assert (
            await visitor.post(f"{here}/edit", data={**change, "project": ""})
        ).status_code == 400
        for before in ("[", "3", '["title"]', '{"tags": null}', '{"tags": 3}'):
            nonsense = await visitor.post(f"{here}/restore", data={"before": before})
            assert nonsense.status_code == 400, before
        assert (await edited(visitor, conversation_id))["title"] == "Mails"


async def test_the_open_form_looks_right(tab: Tab, site: Site) -> None:
    conversation_id = await site.store("one", "two", title="Mails of the shop", tags=["mail"])
    for scheme in ("light", "dark"):
        await tab.page.emulate_media(color_scheme=scheme)
        await tab.open(f"/conversations/{conversation_id}")
        await tab.page.get_by_text("Edit title, tags and project").click()
        await tab.page.screenshot(path=SCREENSHOTS / f"reader-edit-{scheme}.png")

        assert not await violations(tab.page)
