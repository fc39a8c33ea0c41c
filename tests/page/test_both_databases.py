"""The page in a browser on each database: what is stored is changed and brought back, and shown as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from playwright.async_api import Browser, expect

from engram.model.memory import NoteDraft
from engram.wiring import open_service
from tests.page.site import Site, Tab, new_tab
from tests.page.test_documents import FILE
from tests.page.test_duplicates import SAID
from tests.page.test_frame import ADDRESSES
from tests.rest.calls import scoped_key


@pytest.fixture
async def any_tab(browser: Browser, any_site: Site) -> AsyncGenerator[Tab]:
    """Yield a tab that is signed in, on each of the databases."""
    async with new_tab(browser, any_site) as opened:
        await opened.sign_in()
        yield opened


async def press(tab: Tab, button: str, then: str) -> None:
    """Press a button, and wait for what the page says then."""
    await tab.page.get_by_role("button", name=button, exact=True).click()
    await tab.page.get_by_text(then).first.wait_for()


async def test_a_memory_is_changed_in_every_way_and_each_is_undone(
    any_tab: Tab, any_site: Site
) -> None:
    memory_id = await any_site.remember("The demo is on Friday")
    page = any_tab.page
    await any_tab.open(f"/memories/{memory_id}/correct")
    await page.get_by_label("What it says").fill("The demo is on Monday")

    await press(any_tab, "Correct", "The memory is corrected.")
    await press(any_tab, "Undo", "It says what version 1 said.")
    await press(any_tab, "Less important", "importance")
    await press(any_tab, "Undo", "importance")
    await page.get_by_role("link", name="Forget …").click()
    await press(any_tab, "Forget it", "forgotten")
    await press(any_tab, "Undo", "Correct …")
    await press(any_tab, "Delete", "The memory is in the trash.")
    await press(any_tab, "Undo", "The memory is back.")

    await expect(page.get_by_role("article")).to_have_text("The demo is on Friday")


async def test_many_memories_pairs_projects_documents_and_keys_are_changed_and_brought_back(
    any_tab: Tab, any_site: Site
) -> None:
    for ending in ("today.", "always."):
        await any_site.remember(SAID.format(ending), project="shop")
    async with any_site.client() as client:
        key = await scoped_key(client, "read")
    page = any_tab.page
    await any_tab.open("/memories/change?project=shop")
    await press(any_tab, "Move 2 to the trash", "2 memories are in the trash.")
    await press(any_tab, "Undo", "2 memories are as before.")
    await any_tab.open("/duplicates?project=shop")
    await press(any_tab, "Merge the pair", "1 pair is merged.")
    await press(any_tab, "Undo", "1 memory is back.")
    await any_tab.open("/projects/merge?project=shop")
    await page.get_by_label("Into which project?").fill("store")
    await press(any_tab, "Move everything", "2 memories are in “store” now.")
    await press(any_tab, "Undo", "2 are where they were.")
    await any_tab.open("/projects")
    await press(any_tab, "Exclude shop", "excluded")
    await press(any_tab, "Undo", "Every name is a project of its own")
    await any_tab.open("/documents")
    await page.get_by_label("File").set_input_files(files=[FILE])  # pyright: ignore[reportArgumentType] a typed dict
    await press(any_tab, "Store", "The document is stored.")
    await press(any_tab, "Undo", "in the trash.")
    await any_tab.open("/keys")
    row = page.locator(".key").filter(has_not_text="you")
    await row.get_by_text("Revoke", exact=True).click()
    await row.get_by_role("button", name="Revoke").click()
    await press(any_tab, "Undo", "works again")

    async with any_site.client(key) as reader:
        assert (await reader.get("/api/v1/status")).status_code == 200


async def test_what_another_process_stores_appears_by_itself(any_tab: Tab, any_site: Site) -> None:
    await any_tab.open("/feed")
    await expect(any_tab.page.get_by_text("live", exact=True)).to_be_visible()

    async with open_service(any_site.settings) as other:
        principal = await other.access.authenticate(any_site.key)
        await other.memories.store_note(principal, NoteDraft(content="Written elsewhere."))

        await expect(any_tab.page.get_by_text("Written elsewhere.")).to_be_visible()


async def test_every_view_is_shown(any_tab: Tab, any_site: Site) -> None:
    conversation_id = await any_site.store("The demo is on Friday", title="Plans")
    memory_id = await any_site.remember("The demo is on Friday")
    details = (f"/conversations/{conversation_id}", f"/memories/{memory_id}")
    for address in (*ADDRESSES, *details):
        await any_tab.open(address)
        await expect(any_tab.page.get_by_role("heading", level=1)).to_have_count(1)
        beside = await any_tab.page.get_by_role("link", name="This page as JSON").get_attribute(
            "href"
        )
        answer = await any_tab.page.request.get(any_site.url + (beside or ""))
        assert answer.ok, address
        assert isinstance(await answer.json(), dict), address
