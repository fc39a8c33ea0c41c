"""Projects and what is in each."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab
from tests.rest.calls import scoped_key


async def test_projects_are_counted_whatever_they_have(any_site: Site) -> None:
    await any_site.store("one", "two", project="shop")
    await any_site.store("one", project="shop")
    await any_site.remember("Blue is for links", project="design & <b>")
    await any_site.remember("Retry after 30 s", project="shop")
    async with any_site.signed_in() as visitor:
        found = (await visitor.get("/projects.json")).json()["projects"]
        counts = [
            (each["project"], each["conversations"], each["messages"], each["memories"])
            for each in (row["counts"] for row in found)
        ]

        assert counts == [("design & <b>", 0, 0, 1), ("shop", 2, 3, 1)]
        assert "design &amp; &lt;b&gt;" in (await visitor.get("/projects")).text
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        assert (await stranger.get("/projects.json")).json()["projects"] == []


async def test_a_project_leads_to_what_is_in_it(tab: Tab, site: Site) -> None:
    await tab.open("/projects")
    await expect(tab.page.get_by_role("heading", name="No project yet")).to_be_visible()
    await site.store("one", title="Plans", project="shop")
    await site.remember("Blue is for links", project="a&b=c")
    await tab.look("/projects", name="projects")

    await (
        tab.page.locator("li").filter(has_text="a&b=c").get_by_role("link", name="1 memory").click()
    )

    await tab.page.wait_for_url("**/memories?project=**")
    await expect(tab.page.locator(".row-title")).to_have_text(["Blue is for links"])


async def test_a_project_is_merged_into_another_and_taken_apart_again(tab: Tab, site: Site) -> None:
    await site.store("one", title="Plans", project="~/shop <b>")
    await site.remember("Blue is for links", project="~/shop <b>")
    await site.store("two", title="Orders", project="shop")
    page = tab.page
    await tab.open("/projects")
    row = page.locator("li").filter(has_text="~/shop")
    await row.get_by_role("link", name="Merge").click()
    await tab.look("/projects/merge?project=%7E%2Fshop+%3Cb%3E", name="project-merge")
    await expect(page.get_by_text("1 conversation with 1 message")).to_be_visible()
    await page.get_by_label("Into which project?").fill("shop")

    await page.get_by_role("button", name="Move everything").click()

    await page.get_by_text("1 conversation and 1 memory are in “shop” now.").wait_for()
    await tab.look("/projects", name="projects-merged")
    await expect(page.locator(".project")).to_have_count(1)
    await expect(page.locator(".project")).to_contain_text("2 conversations")
    await expect(page.locator(".project")).to_contain_text("also called ~/shop <b>")
    assert await page.evaluate("window.acted") is None


async def test_a_merge_is_undone_with_a_key(tab: Tab, site: Site) -> None:
    await site.remember("Blue is for links", project="old")
    await site.remember("Green is for money", project="new")
    await tab.open("/projects/merge?project=old")
    await tab.page.get_by_label("Into which project?").fill("new")
    await tab.page.keyboard.press("Enter")
    await tab.page.get_by_text("0 conversations and 1 memory are in “new” now.").wait_for()
    await tab.page.wait_for_load_state()

    await tab.page.keyboard.press("u")

    await tab.page.get_by_text("1 are where they were.").wait_for()
    await expect(tab.page.locator(".project .row-title")).to_have_text(["new", "old"])
    await expect(tab.page.get_by_text("Every name is a project of its own")).to_be_visible()


async def test_a_name_is_given_and_a_project_excluded_without_javascript(
    browser: Browser, site: Site
) -> None:
    await site.remember("Blue is for links", project="shop")
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        page = tab.page
        await page.get_by_role("link", name="Projects").click()
        await page.get_by_label("Keep sessions of").fill("~/old/shop")
        await page.get_by_label("in", exact=True).fill("shop")
        await page.get_by_role("button", name="Add a name").click()
        await expect(page.locator(".project")).to_contain_text("also called ~/old/shop")

        await page.locator(".project").get_by_role("button", name="Exclude").click()

        await expect(page.locator(".project .kind")).to_have_text("excluded")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".project .kind")).to_have_count(0)
        await page.get_by_role("button", name="Remove ~/old/shop").click()
        await expect(page.get_by_text("is a project of its own again")).to_be_visible()
        await page.get_by_role("button", name="Undo").click()
        await expect(page.locator(".project")).to_contain_text("also called ~/old/shop")


async def test_rules_are_the_visitors_own_and_need_an_admin(any_site: Site) -> None:
    await any_site.remember("Blue is for links", project="shop")
    async with any_site.client() as admin:
        writing = await scoped_key(admin, "read", "write", "search", "delete")
    forms = {
        "merge": {"project": "shop", "into": "x"},
        "alias": {"project": "shop", "same_as": "x"},
        "exclude": {"project": "shop"},
        "reset": {"project": "shop"},
    }
    async with any_site.signed_in(writing) as writer:
        assert "Exclude" not in (await writer.get("/projects")).text
        assert (await writer.get("/projects/merge?project=shop")).status_code == 403
        for act, fields in forms.items():
            assert (await writer.post(f"/projects/{act}", data=fields)).status_code == 403, act
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        assert (await stranger.get("/projects/merge?project=shop")).status_code == 404
        await stranger.post("/projects/exclude", data={"project": "shop"})
    async with any_site.signed_in() as owner:
        found = (await owner.get("/projects.json")).json()
        assert (len(found["projects"]), found["rules"]) == (1, [])
        refused = await owner.post("/projects/merge", data={"project": "shop", "into": "shop"})
        assert (refused.status_code, "<code>into</code>" in refused.text) == (400, True)
