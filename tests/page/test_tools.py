"""Tools: any operation as a form; the same call and its answer over MCP, REST and the command line."""

from __future__ import annotations

import json
import shlex

from playwright.async_api import Browser, expect

from engram.api.table import OPERATIONS
from tests.page.site import Site, Tab, new_tab
from tests.page.test_safety import HOSTILE
from tests.rest.calls import ADMIN_TOKEN, scoped_key

BY_FILE = {"upload_document", "get_document", "add_part", "export", "import"}
"""Operations that take or send a file."""


async def names(site: Site, key: str | None = None) -> set[str]:
    async with site.signed_in(key) as visitor:
        groups = (await visitor.get("/tools.json")).json()["groups"]
        return {each["name"] for group in groups for each in group["operations"]}


async def test_every_operation_that_is_allowed_has_a_form(site: Site) -> None:
    operators = {each.name for each in OPERATIONS if each.is_operators}
    async with site.client() as admin:
        reading = await scoped_key(admin, "read")
    async with site.signed_in() as visitor:
        for name in await names(site):
            assert (await visitor.get(f"/tools/{name}")).status_code == 200, name

    assert await names(site) == {each.name for each in OPERATIONS} - BY_FILE - operators
    allowed = {each.name for each in OPERATIONS if set(each.scopes) <= {"read"}}
    assert await names(site, reading) == allowed - BY_FILE - operators


async def test_a_call_is_shown_in_three_languages_with_its_answer(any_site: Site) -> None:
    await any_site.store("The worker's retries are slow.", title="Mails", tags=["mail"])
    asked = {"run": "1", "query": "worker's retries", "tags": "mail", "limit": "3"}
    async with any_site.signed_in() as visitor:
        shown = (await visitor.get("/tools/search.json", params=asked)).json()
    async with any_site.client() as api:
        given = {"query": "worker's retries", "tags": ["mail"], "limit": 3}
        answered = (await api.post("/api/v1/search", json=given)).json()

    assert shown["answer"]["results"] == answered["results"]
    assert json.loads(shown["rest"])["results"] == answered["results"]
    assert "The worker's retries are slow." in shown["mcp"]
    call = json.loads(shown["calls"]["mcp"])["params"]
    assert call == {"name": "search", "arguments": given}
    words = shlex.split(shown["calls"]["rest"].replace("\\\n", ""))
    assert words[:4] == ["curl", "-X", "POST", "$ENGRAM_URL/api/v1/search"]
    assert "Authorization: Bearer $ENGRAM_API_KEY" in words
    assert json.loads(words[-1]) == given
    assert shlex.split(shown["calls"]["cli"]) == [
        *("engram", "search", "worker's retries", "--tag", "mail", "--limit", "3", "--json")
    ]


async def test_what_changes_something_is_posted_and_what_destroys_is_confirmed(site: Site) -> None:
    async with site.signed_in() as visitor:
        note = {"content": "The demo is on Friday.", "tags": "demo\nplans"}
        by_address = await visitor.get("/tools/store_note.json", params={**note, "run": "1"})
        assert "answer" not in by_address.json()
        wants_json = {"Accept": "application/json"}
        stored = await visitor.post("/tools/store_note/run", data=note, headers=wants_json)
        memory_id = stored.json()["answer"]["id"]
        removal = {"entry_id": memory_id}

        unsure = await visitor.post("/tools/remove_entry/run", data=removal)
        assert unsure.status_code == 400
        assert "confirmed" in unsure.text
        evil = {**wants_json, "Origin": "https://evil.example"}
        confirmed = {**removal, "confirmed": "yes"}
        foreign = await visitor.post("/tools/remove_entry/run", data=confirmed, headers=evil)
        assert foreign.status_code == 403
        notes = (await visitor.post("/tools/list_entries/run", headers=wants_json)).json()
        assert [each["tags"] for each in notes["answer"]["entries"]] == [["demo", "plans"]]
        await visitor.post("/tools/remove_entry/run", data=confirmed)
        notes = (await visitor.get("/tools/list_entries.json?run=1")).json()
        assert notes["answer"]["entries"] == []


async def test_scopes_and_organisations_rule_what_can_be_called(site: Site) -> None:
    conversation_id = await site.store("a secret of acme", title="Acme's talk")
    async with site.client() as admin:
        reading = await scoped_key(admin, "read")
    async with site.signed_in(reading) as reader:
        note = {"content": "The demo is on Friday."}
        assert (await reader.post("/tools/store_note/run", data=note)).status_code == 404
        assert (await reader.get("/tools/search")).status_code == 404
        assert (await reader.get("/tools/list_organizations")).status_code == 404
        assert (await reader.get("/tools/nonsense")).status_code == 404
    async with site.signed_in(await site.new_organization("other")) as stranger:
        asked = {"run": "1", "conversation_id": conversation_id}
        answer = (await stranger.get("/tools/get_conversation.json", params=asked)).json()
        assert answer["refused"]["code"] == "not_found"
        assert "secret of acme" not in json.dumps(answer)
    assert "list_organizations" not in await names(site)
    async with site.signed_in(ADMIN_TOKEN) as operator:
        assert (await operator.get("/tools")).status_code == 303


async def test_a_refusal_names_the_field_and_keeps_what_was_filled_in(tab: Tab) -> None:
    page = tab.page
    await tab.open("/tools/search")
    await page.get_by_label("query").fill("demo")
    await page.get_by_text("optional fields").click()
    await page.get_by_label("limit", exact=True).fill("100000")
    await page.get_by_role("button", name="Run search").click()

    await expect(page.get_by_role("alert")).to_contain_text("limit")
    await expect(page.get_by_label("query")).to_have_value("demo")
    await tab.open("/tools/append_messages")
    await page.get_by_label("messages").fill("[{")
    await page.get_by_role("button", name="Run append_messages").click()
    await expect(page.get_by_role("alert")).to_contain_text("must be JSON")


async def test_the_playground_looks_right_and_shows_no_key(tab: Tab, site: Site) -> None:
    await site.store("The worker retries.", title="Mails")

    await tab.look("/tools", name="tools")
    examine = tab.page.get_by_role("listitem").filter(has_text="Prove what is stored")
    await expect(examine.locator("code")).to_have_text("engram doctor")
    await expect(examine).not_to_contain_text("`")
    await tab.look("/tools/create_key", name="tool-form")
    await tab.look("/tools/search?run=1&query=worker+retries", name="tool-answer")

    assert "engram_sk_live_" not in await tab.page.content()
    await tab.open("/tools")
    await tab.page.keyboard.press("j")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url("**/tools/search")


async def test_answers_and_fields_that_want_to_act_are_text(tab: Tab, site: Site) -> None:
    await site.store(*HOSTILE, title=HOSTILE[0])
    for text in HOSTILE[:2]:
        await tab.open(f"/tools/search?run=1&min_score=0&query={text}")
        assert await tab.page.evaluate("window.acted") is None
        assert await tab.page.locator("main script, main img, main [hx-get]").count() == 0
    assert "\u202e" not in await tab.page.content()


async def test_an_operation_is_called_without_javascript(browser: Browser, site: Site) -> None:
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("link", name="Tools").click()
        await tab.page.get_by_role("link", name="store_note", exact=True).click()
        await tab.page.get_by_label("content").fill("The demo is on Friday.")
        await tab.page.get_by_role("button", name="Run store_note").click()

        await expect(tab.page.get_by_label("Answer as JSON")).to_contain_text('"mem_')
