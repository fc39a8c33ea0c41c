"""Signing in and out: what a session is worth, and when it ends."""

from __future__ import annotations

import httpx
from playwright.async_api import Browser

from tests.page.site import Site, Tab, new_tab
from tests.rest.calls import ADMIN_TOKEN, scoped_key


async def test_a_browser_without_a_session_is_asked_to_sign_in_and_comes_back(site: Site) -> None:
    async with site.visitor() as visitor:
        refused = await visitor.get("/search?q=queue")
        assert (refused.status_code, refused.headers["location"]) == (
            303,
            "/sign-in?next=%2Fsearch%3Fq%3Dqueue",
        )

        form = await visitor.get(refused.headers["location"])
        answer = await visitor.post("/sign-in", data={"key": site.key, "next": "/search?q=queue"})

        assert 'value="/search?q=queue"' in form.text
        assert answer.headers["location"] == "/search?q=queue"
        assert (await visitor.get("/search?q=queue")).status_code == 200


async def test_a_link_signs_in_once_and_without_a_key(any_site: Site) -> None:
    link = await any_site.new_link()
    async with any_site.visitor() as first, any_site.visitor() as second:
        opened = await first.get(link)
        again = await second.get(link)

        assert (opened.status_code, again.status_code) == (200, 401)
        assert (await first.get("/")).status_code == 200
        assert (await second.get("/")).status_code == 303
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie


async def test_a_session_ends_with_its_key_and_with_sign_out(any_site: Site) -> None:
    async with any_site.client() as admin:
        other = await scoped_key(admin, "read", "search")
        async with any_site.signed_in(other) as revoked, any_site.signed_in() as kept:
            assert (await revoked.get("/conversations")).status_code == 200
            keys = (await admin.get("/api/v1/keys")).json()["keys"]
            narrow = next(key["id"] for key in keys if key["name"] == "narrow")

            await admin.delete(f"/api/v1/keys/{narrow}")

            assert (await revoked.get("/conversations")).status_code == 303
            assert (await kept.get("/conversations")).status_code == 200
            secret = kept.cookies["engram_session"]
            await kept.post("/sign-out")
            kept.cookies.set("engram_session", secret)
            assert (await kept.get("/conversations")).status_code == 303


async def test_a_wrong_key_says_so_and_signs_nobody_in(site: Site) -> None:
    async with site.visitor() as visitor:
        refused = await visitor.post("/sign-in", data={"key": "engram_sk_live_" + "x" * 32})

        assert refused.status_code == 401
        assert "not valid" in refused.text
        assert "set-cookie" not in refused.headers


async def test_a_form_over_https_gets_a_cookie_for_this_host_alone(site: Site) -> None:
    secure = site.url.replace("http://", "https://")
    async with httpx.AsyncClient(base_url=site.url, headers={"Origin": secure}) as visitor:
        answer = await visitor.post("/sign-in", data={"key": site.key})

    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-engram_session=")
    assert "; Secure" in cookie


async def test_nobody_is_sent_to_another_site_after_signing_in(site: Site) -> None:
    async with site.visitor() as visitor:
        for elsewhere in ("https://evil.example/", "//evil.example", "/\\evil.example", "/\tx"):
            answer = await visitor.post("/sign-in", data={"key": site.key, "next": elsewhere})
            assert answer.headers["location"] == "/"


async def test_scopes_rule_what_is_shown(site: Site) -> None:
    async with site.client() as admin:
        narrow = await scoped_key(admin, "search")
    async with site.signed_in(narrow) as visitor:
        home = await visitor.get("/")
        denied = await visitor.get("/conversations")

        assert (home.status_code, denied.status_code) == (200, 403)
        assert 'href="/search"' in home.text
        assert 'href="/conversations"' not in home.text
        assert "scope &#39;read&#39;" in denied.text


async def test_an_operator_sees_every_organisation_and_opens_one(any_site: Site) -> None:
    await any_site.store("a secret of acme", title="Acme's talk")
    async with any_site.signed_in(ADMIN_TOKEN) as operator:
        assert (await operator.get("/")).headers["location"] == "/organizations"
        listed = (await operator.get("/organizations.json")).json()["organizations"]
        acme = next(each for each in listed if each["organization"]["name"] == "acme")
        assert acme["stats"]["messages"] == 1

        chosen = {"organization_id": acme["organization"]["id"]}
        await operator.post("/organizations/choose", data=chosen)

        assert "Acme&#39;s talk" in (await operator.get("/conversations")).text
    async with any_site.signed_in() as member:
        assert (await member.get("/organizations")).status_code == 303


async def test_a_person_signs_in_with_the_link_and_out_again(browser: Browser, site: Site) -> None:
    async with new_tab(browser, site) as tab:
        await tab.page.goto(await site.new_link())
        await tab.page.wait_for_url(site.url + "/")
        await tab.page.get_by_role("heading", name="Nothing is remembered yet").wait_for()

        await tab.page.get_by_role("button", name="Sign out").click()

        await tab.page.get_by_role("heading", name="Sign in").wait_for()
        await tab.look("/sign-in", name="sign-in")


async def test_home_says_what_to_do_first_and_then_what_is_there(tab: Tab, site: Site) -> None:
    await tab.look("/", name="home-empty")
    assert await tab.page.get_by_text("engram connect").is_visible()
    await site.store("The demo is on Friday", title="Plans", project="shop", tags=["demo"])

    await tab.look("/", name="home")

    assert await tab.page.get_by_role("link", name="Plans").is_visible()
