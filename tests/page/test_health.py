"""Health: what is proved, what works in the background, models, backups and imports."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from engram import limits
from engram.backup.record import record_failure
from engram.clock import SystemClock, to_microseconds
from engram.sources.ledger import Entry, Ledger
from engram.sources.registry import SOURCES
from tests.page.site import Site, Tab, new_tab
from tests.page.test_safety import HOSTILE
from tests.rest.calls import scoped_key


def in_file_of(site: Site, statement: str, *values: object) -> None:
    """Execute a statement in the files of organisations that have messages."""
    for path in site.settings.home.rglob("org*.db"):
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute(statement, values)


async def test_a_sound_store_says_so(any_site: Site) -> None:
    await any_site.store("The worker retries.", title="Mails")
    async with any_site.signed_in() as visitor:
        before = (await visitor.get("/health.json")).json()
        examined = await visitor.post("/health/examine", headers={"Accept": "application/json"})

    assert (before["report"]["jobs"], before["report"]["pending"]) == ([], 0)
    assert (before["report"]["backups"], before["report"]["sources"]) == ([], [])
    assert "examination" not in before
    found = examined.json()["examination"]
    assert found == {"findings": [], "is_complete": True, "bound": None}


async def test_an_examination_names_what_is_damaged(tab: Tab, site: Site) -> None:
    await site.store("The worker retries.", title="Mails")
    in_file_of(site, "UPDATE message SET sha256 = zeroblob(32)")
    await tab.open("/health")

    await tab.page.get_by_role("button", name="Examine now").click()

    await expect(tab.page.locator(".verdict")).to_contain_text("finding")
    await expect(tab.page.locator(".findings")).to_contain_text("hash")


async def test_an_examination_ends_at_its_bounds(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await site.store("The worker retries.", title="Mails")
    in_file_of(site, "UPDATE message SET sha256 = zeroblob(32)")
    async with site.client() as admin:
        monkeypatch.setattr(limits, "FINDINGS_SHOWN_MAX", 1)
        few = (await admin.post("/api/v1/examination")).json()
        monkeypatch.setattr(limits, "EXAMINATION_S", 0)
        none = (await admin.post("/api/v1/examination")).json()

    assert (len(few["findings"]), few["is_complete"], few["bound"]) == (1, False, "1 findings")
    assert (none["findings"], none["is_complete"], none["bound"]) == ([], False, "0 s")


async def test_jobs_backups_and_imports_are_shown_as_text(tab: Tab, site: Site) -> None:
    await site.store("The worker retries.", title="Mails")
    now = SystemClock().now()
    later = to_microseconds(now + timedelta(minutes=4))
    add = (
        "INSERT INTO job (organization_id, id, kind, subject, attempts, available_at, lease_owner,"
        " lease_until) SELECT organization_id, ?, 'train_dictionary', ?, 1, 0, 'job_x', ?"
        " FROM conversation LIMIT 1"
    )
    in_file_of(site, add, "job_1", HOSTILE[1], later)
    record_failure(site.settings.home, f"/mnt/{HOSTILE[0]}", "the disk is full", at=now)
    async with site.client() as admin:
        organization_id = (await admin.get("/api/v1/audit")).json()["entries"][-1]["subject"]
    ledger = Ledger(site.settings.home, organization=organization_id)
    ledger.save(SOURCES["claude"], {Path("/x.jsonl"): Entry("", 0, b"", now, {})})

    await tab.look("/health", name="health")

    page = tab.page
    await expect(page.get_by_role("row").filter(has_text="train dictionary")).to_contain_text(
        "at work"
    )
    await expect(page.get_by_text("the disk is full")).to_be_visible()
    await expect(page.get_by_role("listitem").filter(has_text="claude")).to_contain_text("1 file")
    assert await page.evaluate("window.acted") is None
    assert await page.locator("main script, main img").count() == 0


async def test_a_reader_sees_no_backups_and_examines_nothing(site: Site) -> None:
    record_failure(site.settings.home, "/mnt/backups", "x", at=SystemClock().now())
    async with site.client() as admin:
        reading, writing = await scoped_key(admin, "read"), await scoped_key(admin, "write")
    async with site.signed_in(reading) as reader, site.signed_in(writing) as writer:
        shown = await reader.get("/health")
        assert "/mnt/backups" not in shown.text
        assert "Examine now" not in shown.text
        assert (await reader.post("/health/examine")).status_code == 403
        assert (await writer.get("/health")).status_code == 403
        assert (await reader.get("/healthz")).json() == {"status": "ok"}


async def test_an_examination_works_without_javascript(browser: Browser, site: Site) -> None:
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        await tab.page.get_by_role("link", name="Health").click()
        await tab.page.get_by_role("button", name="Examine now").click()

        await expect(tab.page.get_by_text("Nothing is wrong.")).to_be_visible()
