"""The page on a real server, and a browser's tab in it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, ConsoleMessage, Page

from engram.http.asgi import create_app
from engram.settings import Settings
from engram.wiring import open_service
from tests.rest.calls import ADMIN_TOKEN
from tests.serving import serving
from tools.browser.program import AXE

SCREENSHOTS = Path(__file__).parents[2] / "build" / "page"
"""What the last run has looked at."""

NARROW = {"width": 360, "height": 740}
WIDE = {"width": 1200, "height": 860}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Site:
    """A running server with one organisation and its key."""

    def __init__(self, url: str, settings: Settings, key: str) -> None:
        self.url = url
        self.settings = settings
        self.key = key

    def client(self, key: str | None = None) -> httpx.AsyncClient:
        """Return a REST client; without another key of the organisation."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers)

    def visitor(self) -> httpx.AsyncClient:
        """Return what a browser is without JavaScript: it keeps cookies and sends its origin."""
        return httpx.AsyncClient(base_url=self.url, headers={"Origin": self.url})

    @asynccontextmanager
    async def signed_in(self, key: str | None = None) -> AsyncGenerator[httpx.AsyncClient]:
        """Yield a visitor that has signed in."""
        async with self.visitor() as visitor:
            answer = await visitor.post("/sign-in", data={"key": key or self.key})
            assert answer.status_code == 303, answer.text
            yield visitor

    async def new_link(self) -> str:
        """Return what `engram open` prints, from a process of its own on the same store."""
        async with open_service(self.settings) as service:
            return f"{self.url}/sign-in/link?token={await service.sessions.create_link()}"

    async def new_organization(self, name: str) -> str:
        """Return the first key of another organisation."""
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers) as operator:
            made = await operator.post("/admin/organizations", json={"name": name})
            return made.json()["api_key"]

    async def store(
        self, *contents: str, key: str | None = None, role: str = "user", **draft: Any
    ) -> str:
        """Store a conversation of these messages; return its id."""
        async with self.client(key) as client:
            made = await client.post("/api/v1/conversations", json=draft)
            conversation_id = made.json()["conversation_id"]
            for start in range(0, len(contents), 200):
                messages = [
                    {"role": role, "content": content} for content in contents[start : start + 200]
                ]
                path = f"/api/v1/conversations/{conversation_id}/messages"
                stored = await client.post(path, json={"messages": messages}, timeout=60)
                assert stored.status_code == 200, stored.text
            return conversation_id

    async def remember(self, content: str, *, key: str | None = None, **draft: Any) -> str:
        """Store a memory; return its id."""
        async with self.client(key) as client:
            stored = await client.post("/api/v1/memories", json={"content": content, **draft})
            assert stored.status_code == 201, stored.text
            return stored.json()["id"]

    async def correct(self, memory_id: str, **change: Any) -> None:
        """Correct a memory."""
        async with self.client() as client:
            answer = await client.patch(f"/api/v1/memories/{memory_id}", json=change)
            assert answer.status_code == 200, answer.text

    async def relate(self, source_id: str, target_id: str, relation_type: str) -> None:
        """Relate a memory to another."""
        async with self.client() as client:
            relation = {"target_id": target_id, "relation_type": relation_type}
            answer = await client.post(f"/api/v1/memories/{source_id}/relations", json=relation)
            assert answer.status_code == 201, answer.text

    async def stranger_key(self) -> str:
        """Return the key of another organisation."""
        async with self.client(ADMIN_TOKEN) as operator:
            made = await operator.post("/admin/organizations", json={"name": "others"})
            return made.json()["api_key"]


@asynccontextmanager
async def running_site(settings: Settings) -> AsyncGenerator[Site]:
    """Serve a store with one new organisation."""
    async with serving(create_app(settings)) as url:
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        async with httpx.AsyncClient(base_url=url, headers=headers) as operator:
            made = await operator.post("/admin/organizations", json={"name": "acme"})
        yield Site(url, settings, made.json()["api_key"])


class Tab:
    """A tab of the browser, which fails its test if a page complained or broke its policy."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        self.complaints: list[str] = []
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    async def open(self, path: str) -> None:
        """Go to an address of the page."""
        await self.page.goto(self.site.url + path)

    async def sign_in(self, key: str | None = None) -> None:
        """Sign in as a person would."""
        await self.open("/sign-in")
        await self.page.get_by_label("API key").fill(key or self.site.key)
        await self.page.get_by_role("button", name="Sign in").click()
        await self.page.wait_for_url(self.site.url + "/")

    async def look(self, path: str, *, name: str) -> None:
        """Check a view in both themes and on a narrow screen, and keep what it looks like."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for scheme in ("light", "dark"):
            await self.page.emulate_media(color_scheme=scheme)
            await self.page.set_viewport_size(WIDE)  # pyright: ignore[reportArgumentType] a typed dict
            await self.open(path)
            await self.page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png")
            found = await violations(self.page)
            assert not found, found
        await self.page.emulate_media(color_scheme="light")
        await self.page.set_viewport_size(NARROW)  # pyright: ignore[reportArgumentType] a typed dict
        await self.open(path)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
        width = await self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= NARROW["width"], "a narrow screen has to be scrolled sideways"
        await self.page.set_viewport_size(WIDE)  # pyright: ignore[reportArgumentType] a typed dict


async def violations(page: Page) -> Sequence[str]:
    """Return what axe-core finds wrong with the accessibility of a page."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate(
        "(rules) => axe.run(document, {runOnly: rules}).then((found) => found.violations.map("
        "(each) => `${each.id}: ${each.nodes.map((node) => node.html).join(' | ')}`))",
        RULES,
    )
    return list(found)


@asynccontextmanager
async def new_tab(browser: Browser, site: Site, **options: Any) -> AsyncGenerator[Tab]:
    """Open a tab without anything that another has left, in a language whatever the machine has."""
    context = await browser.new_context(viewport=WIDE, locale="en-US", **options)  # pyright: ignore[reportArgumentType] a typed dict
    context.set_default_timeout(10_000)
    tab = Tab(await context.new_page(), site)
    try:
        yield tab
    finally:
        await context.close()
    assert not tab.complaints, tab.complaints
