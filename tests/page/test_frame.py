"""What all views share: the menu of narrow screens, zoom, and the way by keyboard alone."""

from __future__ import annotations

from playwright.async_api import Browser, Page, expect

from tests.page.site import NARROW, SCREENSHOTS, Site, Tab, new_tab, violations

ADDRESSES = (
    "/", "/search?q=demo", "/feed", "/conversations", "/memories", "/documents", "/projects",
    "/episodes", "/seen", "/duplicates", "/trash", "/keys", "/usage", "/health", "/tools",
)  # fmt: skip


LAYOUT_SHIFTS = """() => new Promise((done) => {
  let sum = 0;
  const add = (list) => list.getEntries().forEach((each) => { sum += each.value; });
  new PerformanceObserver(add).observe({ type: "layout-shift", buffered: true });
  requestAnimationFrame(() => setTimeout(() => done(sum), 100));
})"""
"""By how much what was shown has moved, as the browser measures it."""


async def scrolled_width(page: Page, selector: str = "html") -> int:
    """Return by how much something has to be scrolled sideways."""
    return await page.locator(selector).evaluate("(each) => each.scrollWidth - each.clientWidth")


async def test_the_menu_of_a_narrow_screen_opens_and_closes_without_scrolling_sideways(
    tab: Tab, site: Site
) -> None:
    page = tab.page
    await page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] a typed dict
    await tab.open("/")
    menu = page.get_by_role("navigation", name="Views")
    await expect(menu).to_be_hidden()

    await page.get_by_role("button", name="Menu").press("Enter")

    await expect(menu).to_be_visible()
    assert await scrolled_width(page, "#views") <= 0
    assert not await violations(page)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / "menu-narrow.png")
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await expect(page.get_by_role("button", name="Menu")).to_be_focused()


async def test_the_menu_opens_without_javascript(browser: Browser, site: Site) -> None:
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] a typed dict
        await tab.page.get_by_role("button", name="Menu").click()
        await tab.page.get_by_role("link", name="Projects").click()

        await expect(tab.page.get_by_role("heading", level=1)).to_have_text("Projects")


async def test_no_view_scrolls_sideways_at_twice_the_size(tab: Tab, site: Site) -> None:
    await site.store("The demo is on Friday", title="w" * 300, project="p" * 128)
    await site.remember("The demo is on Friday " + "w" * 300, project="q" * 128)
    # A window of 1,200 points at 200 % has room for 600.
    await tab.page.set_viewport_size({"width": 600, "height": 430})
    for address in ADDRESSES:
        await tab.open(address)
        assert await scrolled_width(tab.page) <= 0, address


async def test_no_view_moves_after_it_is_shown(tab: Tab, site: Site) -> None:
    conversation_id = await site.store("one", "two", title="Moved?")
    memory_id = await site.remember("The demo is on Friday")
    reader = f"/conversations/{conversation_id}"
    for address in (*ADDRESSES, reader, f"/memories/{memory_id}", "/tools/search?run=1&query=demo"):
        await tab.open(address)
        await tab.page.wait_for_load_state("load")
        moved = await tab.page.evaluate(LAYOUT_SHIFTS)
        assert moved == 0, address


async def test_a_memory_is_found_corrected_and_brought_back_by_keyboard_alone(
    tab: Tab, site: Site
) -> None:
    await site.remember("The demo is on Friday")
    await tab.open("/")
    page = tab.page
    await page.wait_for_load_state()
    await page.keyboard.press("/")
    await page.keyboard.type("demo Friday")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/search?q=**")
    await page.wait_for_load_state()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/memories/**")
    await page.get_by_role("link", name="Correct …").press("Enter")
    content = page.get_by_label("What it says")
    await content.press("Control+a")
    await content.press_sequentially("The demo is on Monday")

    await page.get_by_role("button", name="Correct", exact=True).press("Enter")

    await page.get_by_text("The memory is corrected.").wait_for()
    await page.wait_for_load_state()
    await page.keyboard.press("u")
    await page.get_by_text("It says what version 1 said.").wait_for()
    await expect(page.locator(".sheet")).to_have_text("The demo is on Friday")
