"""One memory: versions side by side, relations to walk, and what can be done and undone."""

from __future__ import annotations

import httpx
from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab
from tests.rest.calls import scoped_key

HOSTILE = (
    '<script>window.acted = 1</script> "><img src=x onerror="window.acted = 1">\n'
    '<div hx-get="/sign-out" hx-trigger="load">hx</div> [x](javascript:alert(1)) \u202egnissim\u202c'
)


async def test_versions_stand_side_by_side_and_an_old_one_is_brought_back(
    tab: Tab, site: Site
) -> None:
    memory_id = await site.remember("The port is 8080.\nIt never changes.", tags=["net"])
    await site.correct(memory_id, content="The port is 8788.\nIt never changes.\nNor the host.")
    await tab.look(f"/memories/{memory_id}", name="memory-versions")
    page = tab.page
    await expect(page.locator(".difference del")).to_have_text(["8080"])
    await expect(page.locator(".difference ins")).to_have_text(["8788"])
    await expect(page.locator("tr.added .new")).to_have_text(["Nor the host."])

    await page.get_by_role("button", name="Bring back version 1").click()

    await expect(page.locator(".sheet")).to_contain_text("8080")
    await expect(page.get_by_text("It says what version 1 said.")).to_be_visible()
    await tab.page.wait_for_load_state()
    await page.keyboard.press("u")
    await page.get_by_text("It says what version 2 said.").wait_for()
    await expect(page.locator(".sheet")).to_contain_text("8788")
    await page.get_by_label("Version", exact=True).fill("1")
    await page.get_by_label("beside").fill("3")
    await page.get_by_role("button", name="Compare").click()
    assert await page.locator("caption").inner_text() == (
        "The text is the same; other fields were changed."
    )


async def test_a_memory_is_corrected_by_a_form_and_the_correction_undone(
    tab: Tab, site: Site
) -> None:
    memory_id = await site.remember("first line\nsecond line", project="shop", tags=["a, b"])
    await tab.look(f"/memories/{memory_id}/correct", name="memory-correct")
    await tab.page.get_by_label("What it says").fill("first line\nanother line")
    await tab.page.get_by_label("Category").select_option("technical")

    await tab.page.get_by_role("button", name="Correct", exact=True).click()

    async def memory() -> httpx.Response:
        async with site.client() as client:
            return await client.get(f"/api/v1/memories/{memory_id}")

    corrected = (await memory()).json()
    assert (corrected["content"], corrected["category"]) == (
        "first line\nanother line",
        "technical",
    )
    assert (corrected["tags"], corrected["version"]) == (["a, b"], 2)
    await tab.page.get_by_role("button", name="Undo").click()
    back = (await memory()).json()
    assert (back["content"], back["category"]) == ("first line\nsecond line", "general")


async def test_a_form_that_changes_nothing_makes_no_version(site: Site) -> None:
    memory_id = await site.remember("\nlines\r\nof two kinds\n")
    async with site.signed_in() as visitor:
        fields = {"content": "\r\nlines\r\nof two kinds\r\n", "tags": "", "importance": "2"}
        kinds = {"memory_type": "context", "category": "general"}
        await visitor.post(f"/memories/{memory_id}/correct", data={**fields, **kinds})
        shown = (await visitor.get(f"/memories/{memory_id}.json")).json()

    assert shown["memory"]["version"] == 1


async def test_importance_is_lowered_and_the_memory_deleted_each_with_undo(
    tab: Tab, site: Site
) -> None:
    memory_id = await site.remember("The demo is on Friday")
    await tab.open(f"/memories/{memory_id}")
    page = tab.page
    await page.get_by_role("button", name="Less important").click()
    await expect(page.get_by_text("Its importance is low now.")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_text("Its importance is normal now.")).to_be_visible()

    await page.get_by_role("button", name="Delete").click()

    await expect(page.get_by_text("The memory is in the trash.")).to_be_visible()
    await expect(page.locator(".memory-row")).to_have_count(0)
    await page.get_by_role("button", name="Undo").click()
    await page.wait_for_url(f"{site.url}/memories/{memory_id}")
    await expect(page.locator(".sheet")).to_have_text("The demo is on Friday")


async def test_a_forgotten_memory_says_why_and_offers_nothing_that_would_fail(
    tab: Tab, site: Site
) -> None:
    memory_id = await site.remember("The demo is on Friday")
    await tab.open(f"/memories/{memory_id}")
    await tab.page.get_by_role("link", name="Forget …").click()
    await tab.look(f"/memories/{memory_id}/forget", name="memory-forget")
    await tab.page.get_by_label("Why").fill("it was on Thursday")

    await tab.page.get_by_role("button", name="Forget it").click()

    await expect(tab.page.get_by_text("it was on Thursday")).to_be_visible()
    await expect(tab.page.get_by_text("forgotten", exact=True)).to_be_visible()
    await expect(tab.page.get_by_role("link", name="Correct …")).to_have_count(0)
    await expect(tab.page.get_by_role("button", name="Bring back")).to_have_count(0)
    await tab.look(f"/memories/{memory_id}", name="memory-forgotten")


async def test_forgetting_is_undone_at_once_and_later(tab: Tab, site: Site) -> None:
    memory_id = await site.remember("The demo is on Friday")
    page = tab.page
    await tab.open(f"/memories/{memory_id}/forget")
    await page.get_by_role("button", name="Forget it").click()
    await page.get_by_text("no agent is told it any more").wait_for()
    await page.wait_for_load_state()

    await page.keyboard.press("u")

    await page.get_by_text("It is remembered again.").wait_for()
    await tab.open("/memories")
    await expect(page.locator(".row-title")).to_have_text(["The demo is on Friday"])
    await tab.open(f"/memories/{memory_id}/forget")
    await page.get_by_role("button", name="Forget it").click()
    await tab.open(f"/memories/{memory_id}")
    await page.get_by_role("button", name="Remember again").click()
    await expect(page.get_by_role("link", name="Correct …")).to_be_visible()


async def test_relations_are_a_graph_that_can_be_walked(tab: Tab, site: Site) -> None:
    center = await site.remember("We use SQLite")
    near = [await site.remember(f"Reason {place}: 数据库 is small") for place in range(6)]
    far = await site.remember("Backups are files")
    for each in near:
        await site.relate(each, center, "supports")
    await site.relate(near[0], far, "caused_by")
    await site.relate(center, near[5], "contradicts")
    await tab.look(f"/memories/{center}?hops=2", name="memory-graph")
    nodes = tab.page.locator(".graph a")
    await expect(nodes).to_have_count(8)
    await expect(tab.page.locator(".graph .edge")).to_have_count(8)
    await expect(tab.page.get_by_text("that supports this")).to_have_count(6)

    await nodes.filter(has_text="Backups are files").focus()
    await tab.page.keyboard.press("Enter")

    await tab.page.wait_for_url(f"{site.url}/memories/{far}?hops=2#relations")
    assert await tab.page.locator(".graph text.center").text_content() == "Backups are files"


async def test_a_graph_of_many_memories_is_bounded_and_says_so(site: Site) -> None:
    center = await site.remember("center")
    async with site.client() as client:
        drafts = [{"content": f"number {place}"} for place in range(60)]
        made = await client.post("/api/v1/memories/batch", json={"memories": drafts})
    for each in made.json()["ids"]:
        await site.relate(center, each, "relates_to")
    async with site.signed_in() as visitor:
        graph = (await visitor.get(f"/memories/{center}.json")).json()["graph"]

        shown = (await visitor.get(f"/memories/{center}")).text

    assert "Only the 50 strongest relations are shown." in shown
    assert len(graph["nodes"]) == 51
    boxes = {(node["x"], node["y"]) for node in graph["nodes"]}
    assert len(boxes) == 51


async def test_where_a_memory_comes_from_is_said_to_those_who_may_know(site: Site) -> None:
    async with site.client() as admin:
        writer = await scoped_key(admin, "read", "write")
        memory_id = await site.remember("The demo is on Friday", key=writer, source="claude")
        rated = {"memory_ids": [memory_id], "helpful": False}
        await admin.post("/api/v1/memories/feedback", json=rated)
    async with site.signed_in() as owner, site.signed_in(writer) as other:
        known = (await owner.get(f"/memories/{memory_id}.json")).json()
        unknown = (await other.get(f"/memories/{memory_id}.json")).json()
        denied = await other.post("/trash", data={"id": memory_id})

    assert known["key_names"][known["stored_by"]] == "narrow"
    assert unknown["stored_by"] is None
    assert (known["feedback"]["helpful"], known["feedback"]["unhelpful"]) == (0, 1)
    assert denied.status_code == 403


async def test_stored_text_cannot_act_in_a_memory(tab: Tab, site: Site) -> None:
    memory_id = await site.remember(HOSTILE, tags=["<b>"], source="<i>", project="a&b")
    await site.correct(memory_id, content=HOSTILE + "<script>window.acted = 2</script>")
    other = await site.remember(HOSTILE)
    await site.relate(memory_id, other, "supports")
    here = f"/memories/{memory_id}"
    for path in ("/memories", here, f"{here}/correct", f"{here}/forget", "/memories/change"):
        await tab.open(path)
        assert await tab.page.evaluate("window.acted") is None, path
        await expect(tab.page.locator("script:not([nonce])")).to_have_count(0)
        await expect(tab.page.locator("main [hx-get], main img")).to_have_count(0)
        await expect(tab.page.locator('main a[href^="javascript"]')).to_have_count(0)

    await tab.open(here)
    await expect(tab.page.locator("main")).to_contain_text("\\u202egnissim")


async def test_another_tenants_memory_is_as_unknown_as_none(any_site: Site) -> None:
    memory_id = await any_site.remember("a secret")
    absent = "mem_" + "x" * 21
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        for path in ("", "/correct", "/forget", ".json"):
            theirs = await stranger.get(f"/memories/{memory_id}{path}")
            none = await stranger.get(f"/memories/{absent}{path}")
            assert (theirs.status_code, none.status_code) == (404, 404)
            assert theirs.text.replace(memory_id, absent) == none.text or path != ".json"
            assert "secret" not in theirs.text
        for act in ("importance", "revert", "forget", "restore"):
            fields = {"importance": "3", "version": "1", "reason": ""}
            refused = await stranger.post(f"/memories/{memory_id}/{act}", data=fields)
            assert refused.status_code == 404, act
        assert (await stranger.post("/trash", data={"id": memory_id})).status_code == 404
    async with any_site.signed_in() as owner:
        shown = (await owner.get(f"/memories/{memory_id}.json")).json()
        assert (shown["memory"]["importance"], shown["memory"]["version"]) == (2, 1)


async def test_a_memory_is_read_and_corrected_without_javascript(
    browser: Browser, site: Site
) -> None:
    memory_id = await site.remember("The demo is on Friday")
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.open(f"/memories/{memory_id}")
        await tab.page.get_by_role("link", name="Correct …").click()
        await tab.page.get_by_label("What it says").fill("The demo is on Monday")

        await tab.page.get_by_role("button", name="Correct", exact=True).click()

        await expect(tab.page.locator(".sheet")).to_have_text("The demo is on Monday")
        await expect(tab.page.locator(".difference ins")).to_have_text("Monday")


async def test_a_long_memory_is_shown_in_part_and_a_refusal_names_the_field(site: Site) -> None:
    memory_id = await site.remember("word " * 90_000)
    async with site.signed_in() as visitor:
        part = await visitor.get(f"/memories/{memory_id}")
        whole = await visitor.get(f"/memories/{memory_id}?all=1")
        wrong = await visitor.get(f"/memories/{memory_id}?from=2&to=1")
        unknown = await visitor.post(f"/memories/{memory_id}/revert", data={"version": "9"})
        far = await visitor.get(f"/memories/{memory_id}?hops=3")

    assert len(part.text) < 40_000
    assert len(whole.text) > 450_000
    assert (wrong.status_code, unknown.status_code, far.status_code) == (400, 400, 400)
    assert "<code>from</code>" in wrong.text
    assert "<code>hops</code>" in far.text
