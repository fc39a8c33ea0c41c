"""`engram open` and the banner: links that sign a browser in once."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import urllib.error
import urllib.request

from tests.cli.commands import Engram, inherited_environment
from tests.cli.test_serve import read_json, serving


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 loopback
            return answer.status
    except urllib.error.HTTPError as exc:
        return exc.code


def test_open_prints_a_link_to_the_running_server_that_works_once(engram: Engram) -> None:
    with serving(engram, "--json") as output:
        started = read_json(output)

        link = engram("open", "--no-browser").stdout.strip()
        same = engram("open", "--json").json["url"]

        assert link.startswith(f"{started['url']}/sign-in/link?token=")
        assert same != link
        assert [status_of(link), status_of(link), status_of(same)] == [200, 401, 200]
    assert started["page_url"] is None, "what is no terminal may be a log, which others read"


def test_open_says_how_to_start_a_server_where_none_runs(engram: Engram) -> None:
    refused = engram("open", "--json")

    assert refused.status == 1
    failure = json.loads(refused.stderr)["error"]
    assert failure["code"] == "unavailable"
    assert "engram serve" in failure["message"]
    assert not (engram.home / "server-url").exists()


def test_the_banner_on_a_terminal_has_a_link_that_opens_the_page(engram: Engram) -> None:
    terminal, child = pty.openpty()
    environment = {**inherited_environment(), "ENGRAM_HOME": str(engram.home), "COLUMNS": "200"}
    server = subprocess.Popen(
        [sys.executable, "-m", "engram", "serve", "--port", "0"],
        env=environment,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    try:
        shown = b""
        while b"serving the store" not in shown:
            shown += os.read(terminal, 65_536)
        link = re.search(r"http://\S+/sign-in/link\?token=[\w-]+", shown.decode())

        assert link is not None, shown
        assert status_of(link[0]) == 200
    finally:
        server.terminate()
        server.wait(30)
        os.close(terminal)
