"""The list of conversations and the reader: pieces, deep links, hits, and copies."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab
from tests.rest.calls import ADMIN_TOKEN


async def test_the_list_is_filtered_and_sorted_by_its_address(tab: Tab, site: Site) -> None:
    await site.store("one", title="Short", project="shop")
    await site.store("one", "two", "three", title="Long", tags=["garden"])
    await tab.look("/conversations", name="conversations")
    titles = tab.page.locator(".row-title")
    assert await titles.all_inner_texts() == ["Long", "Short"]

    await tab.page.get_by_role("link", name="shop").click()

    assert await titles.all_inner_texts() == ["Short"]
    await tab.page.get_by_title("Remove this filter").click()
    await tab.page.get_by_role("link", name="Longest").click()
    assert await titles.all_inner_texts() == ["Long", "Short"]


async def test_a_long_conversation_comes_in_pieces_and_goes_on_in_place(
    tab: Tab, site: Site
) -> None:
    contents = [f"message number {number}" for number in range(1, 5_001)]
    conversation_id = await site.store(*contents, title="A long one")
    await tab.open(f"/conversations/{conversation_id}")
    messages = tab.page.locator("#messages > li")
    assert await messages.count() == 50

    await tab.page.get_by_role("link", name="Later messages (4,950)").press("Enter")
    await tab.page.get_by_role("link", name="Later messages (4,900)").wait_for()
    await expect(messages.nth(50).get_by_title("Link to this message")).to_be_focused()
    await expect(tab.page.locator("#live")).to_have_text("More messages are shown")

    assert await messages.count() == 100
    assert await messages.nth(99).get_by_text("message number 100", exact=True).is_visible()
    await tab.page.get_by_label("Message", exact=True).fill("4000")
    await tab.page.get_by_role("button", name="Go").click()
    assert await tab.page.get_by_text("message number 4000", exact=True).is_visible()
    assert await tab.page.get_by_role("link", name="Earlier messages").is_visible()


async def test_the_reader_jumps_between_hits_and_folds_tool_calls(tab: Tab, site: Site) -> None:
    conversation_id = await site.store("one", "two **bold**", "three", title="Hits", tags=["a b"])
    async with site.client() as client:
        output = {"role": "tool", "content": "exit status 3", "tool_name": "bash"}
        path = f"/api/v1/conversations/{conversation_id}/messages"
        await client.post(path, json={"messages": [output]})

    await tab.look(f"/conversations/{conversation_id}?at=1&hits=1,3", name="reader")
    page = tab.page
    assert await page.get_by_text("Hit 1 of 2").is_visible()
    await page.get_by_role("link", name="Next hit").click()
    assert await page.get_by_text("Hit 2 of 2").is_visible()
    assert page.url.endswith("at=3#m3")
    output = page.get_by_text("exit status 3")
    assert not await output.is_visible()
    await page.get_by_text("bash").click()
    assert await output.is_visible()
    await page.get_by_role("link", name="Formatted").click()
    assert await page.locator("strong").inner_text() == "bold"


async def test_a_conversation_is_copied_as_markdown(browser: Browser, site: Site) -> None:
    conversation_id = await site.store("one", "two", title="Copied")
    permissions = ["clipboard-read", "clipboard-write"]
    async with new_tab(browser, site, permissions=permissions) as tab:
        await tab.sign_in()
        await tab.open(f"/conversations/{conversation_id}")

        await tab.page.get_by_role("button", name="Copy as Markdown").click()
        await tab.page.get_by_role("button", name="Copied").wait_for()

        copied: str = await tab.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("# Copied\n\n## 1. user, ")
        assert copied.endswith("two\n")


async def test_a_whole_conversation_is_exported_however_long_it_is(any_site: Site) -> None:
    contents = [f"message number {number}" for number in range(1, 1_251)]
    conversation_id = await any_site.store(*contents, "z" * 100_000, title="Long / <one>")
    stranger = await any_site.stranger_key()
    async with any_site.signed_in() as visitor, any_site.signed_in(stranger) as other:
        exported = await visitor.get(f"/conversations/{conversation_id}/export")
        refused = await other.get(f"/conversations/{conversation_id}/export")

    assert exported.text.startswith("# Long / <one>\n\n## 1. user, ")
    assert exported.text.count("\n## ") == 1_251
    assert exported.text.endswith("z" * 100_000 + "\n")
    assert exported.headers["content-disposition"].endswith("Long%20%2F%20%3Cone%3E.md")
    assert "sandbox" in exported.headers["content-security-policy"]
    assert refused.status_code == 404


async def test_a_conversation_is_exported_and_deleted_where_it_is_read(
    tab: Tab, site: Site
) -> None:
    conversation_id = await site.store("one", "two", title="Short")
    await tab.open(f"/conversations/{conversation_id}")
    page = tab.page
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Export").click()
    assert (await download.value).suggested_filename == "Short.md"

    await page.get_by_role("button", name="Delete").click()

    await page.get_by_text("The conversation with its 2 messages is in the trash.").wait_for()
    await page.get_by_role("button", name="Undo").click()
    await page.get_by_text("The conversation is back.").wait_for()
    await page.get_by_text("two", exact=True).wait_for()


async def test_another_tenants_conversation_does_not_exist(site: Site) -> None:

    conversation_id = await site.store("a secret", title="Theirs")
    async with site.client(ADMIN_TOKEN) as operator:
        made = await operator.post("/admin/organizations", json={"name": "others"})
    async with site.signed_in(made.json()["api_key"]) as stranger:
        absent = await stranger.get("/conversations/conv_" + "x" * 21)
        theirs = await stranger.get(f"/conversations/{conversation_id}")

        assert (absent.status_code, theirs.status_code) == (404, 404)
        assert "secret" not in theirs.text
        known = {"q": "secret", "why": conversation_id}
        verdict = (await stranger.get("/search.json", params=known)).json()["why_not"]["verdict"]
        assert verdict == "There is nothing with this id."
