"""The way of a new user, who knows nothing but what the terminal and the page say."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from playwright.async_api import Browser, expect

from tests.cli.commands import inherited_environment

LINK = re.compile(rb"http://\S+/sign-in/link\?token=[\w-]+")


@contextmanager
def served_on_a_terminal(home: Path) -> Generator[int]:
    """Run what `make serve` runs, and yield the terminal that shows its banner."""
    terminal, child = pty.openpty()
    environment = {**inherited_environment(), "ENGRAM_HOME": str(home), "COLUMNS": "200"}
    command = [sys.executable, "-m", "engram", "serve", "--port", "0"]
    server = subprocess.Popen(
        command, env=environment, stdin=child, stdout=child, stderr=child, start_new_session=True
    )
    os.close(child)
    try:
        yield terminal
    finally:
        server.terminate()
        server.wait(30)
        os.close(terminal)


def read_link(terminal: int) -> str:
    """Return the link that the banner shows."""
    shown = b""
    while b"serving the store" not in shown:
        shown += os.read(terminal, 65_536)
    found = LINK.search(shown)
    assert found is not None, shown
    return found[0].decode()


async def test_the_printed_link_leads_to_a_memory_that_is_found_corrected_and_restored(
    browser: Browser, tmp_path: Path
) -> None:
    home = tmp_path / "store"
    note = ["notes", "add", "The demo is on Friday at ten."]
    environment = {**inherited_environment(), "ENGRAM_HOME": str(home)}
    subprocess.run([sys.executable, "-m", "engram", *note], env=environment, check=True)  # noqa: ASYNC221 before the server
    with served_on_a_terminal(home) as terminal:
        context = await browser.new_context(locale="en-US")
        page = await context.new_page()
        page.set_default_timeout(30_000)
        await page.goto(await asyncio.to_thread(read_link, terminal))

        await page.get_by_label("Search everything that is remembered").fill("when is the demo?")
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="General note").click()
        await page.get_by_role("link", name="Correct …").click()
        await page.get_by_label("What it says").fill("The demo is on Monday at ten.")
        await page.get_by_role("button", name="Correct", exact=True).click()
        await expect(page.get_by_text("The memory is corrected.")).to_be_visible()
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("link", name="Trash").click()
        await page.get_by_role("button", name="Restore").click()

        await expect(page.get_by_text("The memory is back.")).to_be_visible()
        await expect(page.get_by_role("article")).to_have_text("The demo is on Monday at ten.")
        await page.get_by_role("button", name="Bring back version 1").click()
        await expect(page.get_by_role("article")).to_have_text("The demo is on Friday at ten.")
        await context.close()
