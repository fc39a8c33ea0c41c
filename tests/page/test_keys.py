"""Keys: listed with their use, made, rotated and revoked; a secret is shown once and in no address."""

from __future__ import annotations

import re

from playwright.async_api import Browser, expect

from engram.wiring import open_service
from tests.mcp.connecting import http_client
from tests.page.site import Site, Tab, new_tab
from tests.page.test_safety import HOSTILE
from tests.rest.calls import scoped_key

SECRET = re.compile(r"engram_sk_live_[\w-]{20,}")


async def test_a_key_is_made_used_rotated_and_revoked(tab: Tab, site: Site) -> None:
    page = tab.page
    addresses = list[str]()
    page.on("request", lambda request: addresses.append(request.url))
    await tab.open("/keys")
    await page.get_by_label("Name").fill("laptop")
    await page.get_by_label("forget and delete").check()
    await page.get_by_label("Expires").select_option("in 90 days")
    await page.get_by_role("button", name="Make the key").click()
    first = await page.get_by_label("The new key").input_value()

    async with site.client(first) as client:
        assert (await client.get("/api/v1/status")).status_code == 200
        assert (await client.get("/api/v1/keys")).status_code == 403
    await page.get_by_role("link", name="I have copied it").click()
    row = page.get_by_role("listitem").filter(has_text="laptop")
    await expect(row).to_contain_text("delete")
    await expect(row).to_contain_text("expires in 3 mo")
    await row.get_by_text("Rotate", exact=True).click()
    await row.get_by_role("combobox").select_option("at once")
    await row.get_by_role("button").click()
    second = await page.get_by_label("The new key").input_value()
    async with site.client(first) as old, site.client(second) as new:
        assert (await old.get("/api/v1/status")).status_code == 401
        assert (await new.get("/api/v1/status")).status_code == 200

        await tab.open("/keys")
        live = page.locator(".key:not(.ended)").filter(has_text="laptop")
        await live.get_by_text("Revoke", exact=True).click()
        await live.get_by_role("button").click()

        await expect(page.get_by_role("status")).to_contain_text("laptop")
        assert (await new.get("/api/v1/status")).status_code == 401
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status")).to_contain_text("works again")
        assert (await new.get("/api/v1/status")).status_code == 200
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_role("status")).to_contain_text("is revoked")
        await page.get_by_role("button", name="Bring back").click()
        await expect(page.get_by_role("status")).to_contain_text("works again")
        assert (await new.get("/api/v1/status")).status_code == 200
    assert not any(SECRET.search(address) for address in addresses)
    assert not SECRET.search(await page.content())


async def test_a_secret_is_not_kept_by_the_browser(site: Site) -> None:
    async with site.signed_in() as visitor:
        form = {"name": "ci", "scopes": ["read"], "days": ""}
        made = await visitor.post("/keys/new", data=form)

        assert made.status_code == 200
        assert made.headers["cache-control"] == "no-store"
        assert "set-cookie" not in made.headers
        secret = SECRET.search(made.text)
        assert secret is not None
        assert secret[0] not in (await visitor.get("/keys")).text
        assert secret[0] not in (await visitor.get("/keys.json")).text
        refused = await visitor.post("/keys/new", data={**form, "scopes": ["everything"]})
        none = await visitor.post("/keys/new", data={"name": "ci", "days": ""})
        assert (refused.status_code, none.status_code) == (400, 400)
        assert "scopes" in none.text


async def test_keys_say_who_uses_them_and_which_is_yours(any_site: Site) -> None:
    async with any_site.client() as admin:
        used = await scoped_key(admin, "read", "search")
    async with http_client(any_site.url, used) as agent:
        await agent.call_tool("search", {"query": "anything"})
    async with any_site.signed_in() as visitor:
        rows = (await visitor.get("/keys.json")).json()["keys"]

    by_name = {row["key"]["name"]: row for row in rows}
    assert by_name["narrow"]["clients"] == ["mcp"]
    assert by_name["narrow"]["key"]["scopes"] == ["read", "search"]
    assert by_name["first key"]["is_own"]
    assert not by_name["narrow"]["is_own"]


async def test_requests_are_counted_by_key_and_day(any_site: Site) -> None:
    async with any_site.client() as admin:
        used = await scoped_key(admin, "read", "search")
    async with open_service(any_site.settings) as service:
        me = await service.access.authenticate(used)
        for _ in range(3):
            service.access.take_request(me)
        await service.record_use()
    async with any_site.signed_in() as visitor:
        rows = (await visitor.get("/keys.json")).json()["keys"]
        shown = (await visitor.get("/keys")).text
    async with any_site.client() as admin:
        listed = (await admin.get("/api/v1/keys/usage", params={"days": 1})).json()["keys"]
    async with any_site.client(await any_site.stranger_key()) as stranger:
        theirs = (await stranger.get("/api/v1/keys/usage")).json()["keys"]

    narrow = next(row for row in rows if row["key"]["name"] == "narrow")
    assert (narrow["requests"], narrow["days"][-1]["requests"], len(narrow["days"])) == (3, 3, 30)
    assert "requests in 30 days" in shown
    assert [each["days"][0]["requests"] for each in listed if each["key_id"] == me.actor] == [3]
    assert theirs == []


async def test_only_an_admin_of_the_organisation_sees_and_changes_its_keys(site: Site) -> None:
    async with site.client() as admin:
        reading = await scoped_key(admin, "read", "write", "search", "delete")
        keys = (await admin.get("/api/v1/keys")).json()["keys"]
    key_id = keys[0]["id"]
    async with site.signed_in(reading) as reader:
        assert (await reader.get("/keys")).status_code == 403
        assert 'href="/keys"' not in (await reader.get("/")).text
        form = {"name": "x", "scopes": ["admin"], "days": ""}
        assert (await reader.post("/keys/new", data=form)).status_code == 403
        assert (await reader.post(f"/keys/{key_id}/revoke")).status_code == 403
    async with site.signed_in(await site.new_organization("other")) as stranger:
        assert (await stranger.post(f"/keys/{key_id}/revoke")).status_code == 404
        rotated = await stranger.post(f"/keys/{key_id}/rotate", data={"overlap_s": "0"})
        assert rotated.status_code == 404
    async with site.signed_in() as visitor:
        headers = {"Origin": "https://evil.example"}
        evil = await visitor.post(f"/keys/{key_id}/revoke", headers=headers)
        assert evil.status_code == 403
        assert (await visitor.get("/keys")).status_code == 200


async def test_keys_look_right_and_names_cannot_act(tab: Tab, site: Site) -> None:
    async with site.client() as admin:
        for name in ("laptop", HOSTILE[0][:60], "an agent with a name that is rather long " * 3):
            await admin.post("/api/v1/keys", json={"name": name, "scopes": ["read", "search"]})
        revoked = (await admin.post("/api/v1/keys", json={"name": "old"})).json()["id"]
        await admin.delete(f"/api/v1/keys/{revoked}")

    async with open_service(site.settings) as service:
        me = await service.access.authenticate(site.key)
        for _ in range(12):
            service.access.take_request(me)
        await service.record_use()
    await tab.look("/keys", name="keys")

    assert await tab.page.evaluate("window.acted") is None
    await tab.page.get_by_text("Make a key", exact=True).click()
    await tab.page.get_by_label("Name").fill("new")
    await tab.page.keyboard.press("Enter")
    await tab.page.get_by_role("button", name="Copy").wait_for()
    await tab.page.screenshot(path="build/page/key-made.png")


async def test_a_key_is_made_without_javascript(browser: Browser, site: Site) -> None:
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("link", name="Keys").click()
        await tab.page.get_by_label("Name").fill("ci")
        await tab.page.get_by_role("button", name="Make the key").click()

        secret = await tab.page.get_by_label("The new key").input_value()
        assert SECRET.fullmatch(secret)
