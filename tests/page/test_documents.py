"""Documents: storing a file, how much of it is searched, and asking it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
from playwright.async_api import Browser, expect

from tests.page.site import Site, Tab, new_tab

TEXT = "# Operations\n\nThe service listens on port 8788.\n\n# Garden\n\nFerns grow in the shade.\n"
NAME = "<b>manual</b>.md"
FILE = {"name": NAME, "mimeType": "text/markdown", "buffer": TEXT.encode()}


async def test_a_file_is_stored_found_asked_and_deleted(tab: Tab, site: Site) -> None:
    await tab.look("/documents", name="documents-empty")
    page = tab.page
    await page.get_by_label("Project").fill("shop")
    await page.get_by_label("File").set_input_files(files=[FILE])  # pyright: ignore[reportArgumentType] a typed dict

    await page.get_by_role("button", name="Store").click()

    await page.get_by_text("The document is stored.").wait_for()
    await expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    address = page.url.removeprefix(site.url)
    await page.get_by_label("with the words").fill("port 8788")
    await page.get_by_role("button", name="Ask").click()
    await expect(page.locator("mark")).to_have_text(["port 8788"])
    await tab.look(f"{address}?q=where+do+ferns+grow&contains=shade", name="document")
    await tab.look("/documents", name="documents")
    await expect(page.get_by_text("all searched")).to_be_visible()
    await tab.open("/search?q=ferns+grow+shade")
    await page.locator(".hit-title").first.click()
    assert page.url.removeprefix(site.url) == address
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("button", name="Undo").click()
    await tab.open(address)
    await expect(page.get_by_role("heading", level=1)).to_have_text(NAME)


async def test_a_file_is_stored_without_javascript_and_the_same_once(
    browser: Browser, site: Site
) -> None:
    async with new_tab(browser, site, java_script_enabled=False) as tab:
        await tab.sign_in()
        for notice in ("The document is stored.", "The project has this document already."):
            await tab.open("/documents")
            await tab.page.get_by_label("File").set_input_files(files=[FILE])  # pyright: ignore[reportArgumentType] a typed dict
            await tab.page.get_by_role("button", name="Store").click()
            await expect(tab.page.get_by_text(notice)).to_be_visible()


async def test_a_refused_file_says_why_beside_the_form(tab: Tab) -> None:
    await tab.open("/documents")
    await tab.page.get_by_label("Project").fill("x" * 300)
    await tab.page.get_by_label("File").set_input_files(files=[FILE])  # pyright: ignore[reportArgumentType] a typed dict

    await tab.page.get_by_role("button", name="Store").click()

    await tab.page.get_by_role("alert").filter(has_text="characters").wait_for()
    assert await tab.page.get_by_role("button", name="Store").is_enabled()
    refused = [each for each in tab.complaints if "400" in each]
    tab.complaints[:] = [each for each in tab.complaints if each not in refused]
    assert len(refused) == 1  # the console's own line about the answer


def form(*parts: tuple[str, str, bytes]) -> bytes:
    """Return a form of parts: name, further parameters, bytes."""
    made = b"".join(
        b'--xx\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
        % (name.encode(), more.encode(), data)
        for name, more, data in parts
    )
    return made + b"--xx--\r\n"


NAMED = '; filename="a.txt"'


async def send(visitor: httpx.AsyncClient, body: bytes, kind: str | None = None) -> httpx.Response:
    headers = {"Content-Type": kind or "multipart/form-data; boundary=xx"}
    return await visitor.post("/documents", content=body, headers=headers, timeout=60)


async def test_forms_that_are_none_are_refused_and_leave_nothing(site: Site) -> None:
    whole = form(("file", NAMED, b"text"))
    refused = {
        "no file": (form(("project", "", b"shop")), None, "file"),
        "not chosen": (form(("file", '; filename=""', b"")), None, "file"),
        "broken off": (whole[:-8], None, "file"),
        "not multipart": (b"a=b", "application/x-www-form-urlencoded", "Content-Type"),
        "garbage": (b"garbage" * 100, None, "form"),
        "after the file": (form(("file", NAMED, b"a"), ("late", "", b"b")), None, "late"),
    }
    async with site.signed_in() as visitor:
        for why, (body, kind, field) in refused.items():
            answer = await send(visitor, body, kind)
            assert (answer.status_code, f"<code>{field}</code>" in answer.text) == (400, True), why
        large = await send(visitor, form(("project", "", b"x" * 1_100_000), ("file", NAMED, b"a")))
        assert large.status_code == 413
        assert (await visitor.get("/documents.json")).json()["found"]["total"] == 0
        other = await visitor.post("/documents", headers={"Origin": "https://evil.example"})
        assert other.status_code == 403


async def test_a_long_file_is_streamed_and_its_progress_shown(any_site: Site) -> None:
    line = b"A line of a long manual that says where the fuse is.\n"
    data = line * 60_000

    async def pieces() -> AsyncGenerator[bytes]:
        head, tail = form(("file", NAMED, b"||")).split(b"||")
        yield head
        for start in range(0, len(data), 65_536):
            yield data[start : start + 65_536]
            await asyncio.sleep(0)
        yield tail

    async with any_site.signed_in() as visitor:
        headers = {"Content-Type": "multipart/form-data; boundary=xx"}
        stored = await visitor.post("/documents", content=pieces(), headers=headers, timeout=120)
        assert stored.status_code == 303, stored.text
        shown = (await visitor.get(stored.headers["location"] + ".json")).json()["document"]

    assert (shown["size_bytes"], shown["name"]) == (len(data), "a.txt")
    assert 0 <= shown["progress"] <= 1


async def test_another_tenants_document_is_as_unknown_as_none(any_site: Site) -> None:
    async with any_site.signed_in() as owner:
        stored = await send(owner, form(("file", NAMED, b"a secret")))
        address = stored.headers["location"]
    async with any_site.signed_in(await any_site.stranger_key()) as stranger:
        theirs = await stranger.get(f"{address}?q=secret")
        none = await stranger.get("/documents/doc_" + "x" * 21)
        assert (theirs.status_code, none.status_code) == (404, 404)
        assert "a secret" not in theirs.text
        assert "a.txt" not in (await stranger.get("/documents")).text


async def test_a_document_is_downloaded_byte_for_byte_and_cannot_act(tab: Tab, site: Site) -> None:
    body = b"<script>window.acted = 1</script>\r\n\x00\xff" + bytes(range(256)) * 5_000
    async with site.client() as client:
        made = await client.post(
            "/api/v1/documents",
            params={"name": "a <b>.html"},
            content=body,
            headers={"Content-Type": "text/html"},
        )
        document_id = made.json()["document_id"]
    await tab.open(f"/documents/{document_id}")
    async with tab.page.expect_download() as started:
        await tab.page.get_by_role("link", name="Download").click()

    saved = await started.value

    assert Path(await saved.path()).read_bytes() == body
    async with site.signed_in() as visitor:
        answer = await visitor.get(f"/documents/{document_id}/body")
        assert answer.content == body
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
    async with site.signed_in(await site.stranger_key()) as stranger:
        assert (await stranger.get(f"/documents/{document_id}/body")).status_code == 404
    async with site.visitor() as nobody:
        assert (await nobody.get(f"/documents/{document_id}/body")).status_code == 303
