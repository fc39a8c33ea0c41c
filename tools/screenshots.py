"""Renew the pictures of the page in docs, from a server with made-up talks.

python -m tools.screenshots
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tools.browser.program import find_browser, install_browser
from tools.server import Server, running_server

DOCS = Path(__file__).parents[1] / "docs"
SIZE = {"width": 1180, "height": 700}
QUESTION = "why do customers get their invoice twice?"
INDEXED_S = 120.0

TALKS: Mapping[str, Mapping[str, Any]] = {
    "Invoices that arrive twice": {
        "project": "shop",
        "agent_id": "claude-code",
        "tags": ["mail", "decision"],
        "said": [
            ("user", "Why do some customers get their invoice mail twice since Tuesday?"),
            (
                "assistant",
                (
                    "The worker gives up after 30 seconds and tries again, but the mail server has"
                    " accepted the first attempt by then. So the second one is a duplicate."
                ),
            ),
            ("tool", '{\n  "queue": "mail",\n  "timeout_s": 30,\n  "attempts": 3\n}'),
            ("user", "Then sending has to be idempotent. Where do we keep what was sent?"),
            (
                "assistant",
                (
                    "In a table `outbox`, written in the transaction that creates the invoice. The"
                    " worker removes a row only after the server has answered 250, and a repeated"
                    " message id is dropped there."
                ),
            ),
            ("user", "Agreed. Put it behind the flag `outbox_mails` until Friday."),
        ],
    },
    "Release 4.2": {
        "project": "shop",
        "agent_id": "codex",
        "tags": ["release"],
        "said": [
            ("user", "What is left for release 4.2?"),
            ("assistant", "The changelog, signed wheels, and the note about Python 3.10."),
            ("user", "The demo is on Friday at 10:00, so wheels have to be there on Thursday."),
        ],
    },
    "Beds on the north side": {
        "project": "garden",
        "tags": ["plants"],
        "said": [
            ("user", "Which plants like the north side, with four hours of sun?"),
            ("assistant", "Ferns, hostas and astilbe. Hydrangea only in the corner at the gate."),
        ],
    },
}
NOTES = (
    ("Invoices are numbered by year and never reused.", "project"),
    ("Deploys go out on Tuesdays and Thursdays, never on a Friday.", "project"),
    ("Ana prefers pull requests below 300 lines.", "user_pref"),
)


def main() -> None:
    """Write the pictures."""
    install_browser()
    with running_server(EMBEDDER="local") as server:
        key = server.create_organization("pictures")
        _fill(server, key)
        server.wait_until_indexed(token=key, timeout_s=INDEXED_S)
        _take(server, key)


def _fill(server: Server, key: str) -> None:
    at = datetime.now(UTC) - timedelta(days=3)
    for title, talk in TALKS.items():
        described = {name: value for name, value in talk.items() if name != "said"}
        made = server.post("/api/v1/conversations", {"title": title, **described}, token=key)
        messages = _messages(talk["said"], at)
        path = f"/api/v1/conversations/{made['conversation_id']}/messages"
        server.post(path, {"messages": messages}, token=key)
        at += timedelta(hours=20)
    for content, category in NOTES:
        server.post("/api/v1/notes", {"content": content, "category": category}, token=key)


def _messages(said: Sequence[tuple[str, str]], at: datetime) -> list[dict[str, str]]:
    return [
        {
            "role": role,
            "content": content,
            "occurred_at": (at + timedelta(minutes=place)).isoformat(),
            **({"tool_name": "read_config"} if role == "tool" else {}),
        }
        for place, (role, content) in enumerate(said)
    ]


def _take(server: Server, key: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light")  # pyright: ignore[reportArgumentType] a typed dict
        page.goto(server.url)
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        _take_search(page, server.url)
        _take_reader(page)
        browser.close()


def _take_search(page: Page, url: str) -> None:
    page.goto(f"{url}/search?q={QUESTION.replace(' ', '+')}")
    page.locator(".why summary").first.click()
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur()")
    page.screenshot(path=DOCS / "page-search.png")


def _take_reader(page: Page) -> None:
    page.locator(".hit-title").nth(1).click()
    page.emulate_media(color_scheme="dark")
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=DOCS / "page-conversation.png")


if __name__ == "__main__":
    main()
