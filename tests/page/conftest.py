"""One browser for all tests of the page in a process, and a server for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright, expect

from engram.embedding.choice import NoEmbedder
from engram.settings import Settings
from tests.page.site import Site, Tab, new_tab, running_site
from tests.rest.calls import ADMIN_TOKEN
from tools.browser.program import LIBRARIES, find_browser


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncGenerator[Browser]:
    """Yield the browser that `python -m tools.browser` has installed."""
    program = find_browser()
    if program is None:
        missing = pytest.fail if "CI" in os.environ else pytest.skip  # noqa: TID251 - of the test run
        missing("there is no browser: run `python -m tools.browser`")
    paths = f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}"  # noqa: TID251 for the browser
    expect.set_options(timeout=10_000)
    async with async_playwright() as playwright:
        # A container's root has no sandbox for it; what it opens is our own.
        started = await playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu"],
            env={**os.environ, "LD_LIBRARY_PATH": paths},  # noqa: TID251 for the browser
        )
        yield started
        await started.close()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path / "store", embedder=NoEmbedder(), admin_token=ADMIN_TOKEN, rate_limit=0
    )


@pytest.fixture
async def site(settings: Settings) -> AsyncGenerator[Site]:
    async with running_site(settings) as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
async def any_site(request: pytest.FixtureRequest, settings: Settings) -> AsyncGenerator[Site]:
    """Yield a site on each of the databases."""
    if request.param == "postgres":
        from engram.model.value import replace

        settings = replace(settings, database_url=request.getfixturevalue("database_url"))
    async with running_site(settings) as running:
        yield running


@pytest.fixture
async def tab(browser: Browser, site: Site) -> AsyncGenerator[Tab]:
    """Yield a tab that is signed in."""
    async with new_tab(browser, site) as opened:
        await opened.sign_in()
        yield opened
