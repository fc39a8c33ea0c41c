"""Episodes of a project and what was kept in one."""

from __future__ import annotations

from playwright.async_api import expect

from tests.page.site import Site, Tab


async def new_episode(site: Site, description: str, project: str = "shop") -> str:
    async with site.client() as client:
        draft = {"description": description, "project": project}
        made = await client.post("/api/v1/episodes", json=draft)
        return made.json()["episode_id"]


async def test_an_episode_shows_its_memories_and_a_memory_its_episode(tab: Tab, site: Site) -> None:
    episode_id = await new_episode(site, "Moving <b>the shop</b>")
    memory_id = await site.remember("The shop is closed", project="shop", episode_id=episode_id)
    async with site.client() as client:
        end = {"project": "shop", "summary": "It **moved**."}
        await client.post(f"/api/v1/episodes/{episode_id}/end", json=end)
    await tab.open("/episodes")
    await expect(tab.page.get_by_role("heading", name="No episode in default")).to_be_visible()
    await tab.page.get_by_label("Project").select_option("shop")
    await tab.page.get_by_role("button", name="Show").click()
    await tab.look("/episodes?project=shop", name="episodes")

    await tab.page.get_by_role("link", name="Moving <b>the shop</b>").click()

    await tab.page.wait_for_url(f"**/episodes/{episode_id}?project=shop")
    await expect(tab.page.locator(".sheet strong")).to_have_text("moved")
    await tab.look(f"/episodes/{episode_id}?project=shop", name="episode")
    await tab.page.get_by_role("link", name="The shop is closed").click()
    await tab.page.wait_for_url(f"**/memories/{memory_id}")
    await tab.page.get_by_role("link", name="what else was kept then").click()
    await tab.page.wait_for_url(f"**/episodes/{episode_id}?project=shop")


async def test_another_tenants_episode_is_as_unknown_as_none(any_site: Site) -> None:
    episode_id = await new_episode(any_site, "a secret")
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        theirs = await stranger.get(f"/episodes/{episode_id}?project=shop")
        none = await stranger.get("/episodes/ep_" + "x" * 21 + "?project=shop")
        listed = await stranger.get("/episodes?project=shop")

    assert (theirs.status_code, none.status_code) == (404, 404)
    assert "a secret" not in theirs.text + listed.text
