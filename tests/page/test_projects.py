"""Projects and what is in each."""

from __future__ import annotations

from playwright.async_api import expect

from tests.page.site import Site, Tab


async def test_projects_are_counted_whatever_they_have(any_site: Site) -> None:
    await any_site.store("one", "two", project="shop")
    await any_site.store("one", project="shop")
    await any_site.remember("Blue is for links", project="design & <b>")
    await any_site.remember("Retry after 30 s", project="shop")
    async with any_site.signed_in() as visitor:
        found = (await visitor.get("/projects.json")).json()["projects"]
        counts = [
            (each["project"], each["conversations"], each["messages"], each["memories"])
            for each in found
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
