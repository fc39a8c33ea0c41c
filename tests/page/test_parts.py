"""The parts of the page: vendored files, weights, addresses, and the room's promises about imports."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from engram.page import SEGMENTS, is_of_page
from engram.page.places import places_of
from engram.page.rendering import inline_code, place_links
from engram.page.sign_in import PUBLIC
from engram.page.static_files import static_files
from engram.page.views import ACTS, VIEWS
from tests.page.site import Site

VENDORED = {
    "htmx.min.js": "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f",
    "hx-sse.min.js": "8a834680c4000a9034d79228872372a92e140c810a075cb6d4a76690dfc13085",
    "hx-csp.min.js": "279f659b9ec8658e3d47230cc545b0bb4e3efa4c2d780454d54db104a5257b7d",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the files of htmx 4.0.0 and uPlot 1.6.32, as their packages have them."""

FIRST_PAINT_BYTES_MAX = 50_000


def test_vendored_files_are_those_of_their_packages() -> None:
    folder = Path(str(sys.modules["engram.page"].__path__[0])) / "static" / "vendor"
    hashes = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix != ".txt"
    }

    assert hashes == VENDORED
    licences = {path.name for path in folder.glob("*.LICENSE.txt")}
    assert licences == {"htmx.LICENSE.txt", "uPlot.LICENSE.txt"}


def test_every_address_begins_with_a_segment_of_the_page() -> None:
    paths = [*(view.path for view in VIEWS), *(act.path for act in ACTS), *PUBLIC, "/static/x"]

    assert {path.split("/")[1] for path in paths} == SEGMENTS
    assert is_of_page("/search.json")
    assert not is_of_page("/api/v1/search")
    assert not is_of_page("/mcp")


def test_every_view_and_act_names_the_scopes_it_needs() -> None:
    for each in (*VIEWS, *ACTS):
        assert each.scopes or each.is_operators or each.path == "/", each.path


async def test_the_first_paint_is_light(site: Site) -> None:
    async with site.signed_in() as visitor:
        home = await visitor.get("/")
    files = static_files()
    linked = [name for name in files if f"/static/{name}" in home.text]

    sent = len(home.content) + sum(len(files[name].compressed) for name in linked)

    assert "page.css" in linked
    assert sent < FIRST_PAINT_BYTES_MAX


def test_nothing_of_the_page_is_loaded_before_it_is_asked_for() -> None:
    program = "import sys, engram.http.asgi, engram.cli.app; print('jinja2' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)  # noqa: PLW1510 it is printed

    assert said.stdout.strip() == "False", said.stderr


def test_of_many_messages_the_first_are_linked_and_the_others_counted() -> None:
    few, many = (
        place_links(places_of([f"conv_harbour#{number}" for number in range(1, count + 1)]))
        for count in (4, 9)
    )

    assert "#m4" in few
    assert "more" not in few
    assert "#m5" not in many
    assert "and 5 more" in many


def test_inline_code_is_marked_and_everything_else_escaped() -> None:
    assert inline_code("as `engram doctor` does") == "as <code>engram doctor</code> does"
    assert inline_code("`<b>` & `c`") == "<code>&lt;b&gt;</code> &amp; <code>c</code>"
    assert inline_code("one ` alone") == "one ` alone"
