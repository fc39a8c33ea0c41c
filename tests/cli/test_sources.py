"""`engram import` and `engram sources`: from a user's directory to a search."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engram.cli.sources import offer_imports
from engram.clock import SystemClock
from tests.cli.commands import Engram


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of a user who has nothing yet."""
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def _say(user: Path, text: str, *, own_id: str = "u1", kind: str = "user") -> Path:
    path = user / ".claude" / "projects" / "-srv-harbour" / "s1.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "type": kind,
        "uuid": own_id,
        "sessionId": "s1",
        "cwd": "/srv/harbour",
        "message": {"role": "user", "content": text},
    }
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")
    return path


def test_what_was_imported_is_found(engram: Engram, user: Path) -> None:
    _say(user, "the ferry leaves at nine")

    done = engram("import", "claude")

    assert "claude: stored 1 message; 1 file" in done.stdout
    found = engram("search", "ferry", "--json").json
    assert "the ferry leaves at nine" == found["results"][0]["messages"][0]["content"]
    assert 0 == engram("import", "--all", "--json").json["sources"][0]["stored"]


def test_a_report_says_what_was_left_out(engram: Engram, user: Path) -> None:
    _say(user, "the ferry leaves at nine")
    _say(user, "", own_id="u2", kind="novelty")
    _say(user, "<private>all of it</private>", own_id="u3")

    done = engram("import", "claude")

    assert "skipped 1: private or empty" in done.stdout
    assert "unknown type novelty (1 record)" in done.stdout
    checked = engram("doctor")
    assert "imports from claude met unknown types of records: novelty (1)" in checked.stderr
    assert {"claude": {"novelty": 1}} == engram("doctor", "--json").json["drift"]


def test_sources_say_what_is_here_and_how_long(engram: Engram, user: Path) -> None:
    path = _say(user, "the ferry leaves at nine")
    ten_days_ago = (SystemClock().now() - timedelta(days=10, hours=1)).timestamp()
    os.utime(path, (ten_days_ago, ten_days_ago))
    (user / ".claude" / "settings.json").write_text('{"cleanupPeriodDays": 14}')

    before = _claude(engram)
    engram("import", "claude")
    after = _claude(engram)

    assert (1, 1, 3) == (before["files"], before["new"], before["days_left"])
    assert before["imported_at"] is None
    assert 0 == after["new"]
    assert after["imported_at"] is not None
    assert "3 days" in engram("sources").stdout


def _claude(engram: Engram) -> dict[str, Any]:
    sources = engram("sources", "--json").json["sources"]
    return next(each for each in sources if each["name"] == "claude")


def test_a_dry_run_stores_nothing(engram: Engram, user: Path) -> None:
    _say(user, "the ferry leaves at nine")

    planned = engram("import", "claude", "--dry-run")

    assert "would store 1 message" in planned.stdout
    assert 0 == engram("status", "--json").json["messages"]


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["import"], "--all"),
        (["import", "claud"], "did you mean claude?"),
        (["import", "claude", "--all"], "cannot be combined"),
        (["import", "claude", "/no/such/place"], "no file or directory"),
        (["import", "chatgpt"], "has no fixed place"),
        (["import", "claude", "--since", "soon"], "--since"),
    ],
)
def test_a_mistaken_call_says_what_is_wrong(
    engram: Engram, arguments: list[str], complaint: str
) -> None:
    outcome = engram(*arguments)

    assert 2 == outcome.status
    assert complaint in outcome.stderr


def test_redaction_can_be_switched_off(engram: Engram, user: Path) -> None:
    secret = "sk-ant-" + "api03-abcdefghijklmnopqrstuvwx"
    _say(user, f"the ferry needs {secret}")

    engram("import", "claude", redact="off")

    assert secret in engram("search", "ferry", "--json").stdout


def test_watching_goes_on_until_it_is_interrupted(engram: Engram, user: Path) -> None:
    _say(user, "the ferry leaves at nine")

    with engram.start("import", "claude", "--watch") as process:
        assert process.stderr is not None
        assert b"watching" in process.stderr.readline()
        _say(user, "and at ten", own_id="u2")
        assert b"claude: 1 message" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate()

    assert b"claude: stored 2 messages; 1 file" in stdout
    assert 0 == process.returncode


def test_the_owner_of_a_new_store_hears_what_there_is_to_import(
    user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    offer_imports()
    nothing = capsys.readouterr().err
    _say(user, "the ferry leaves at nine")

    offer_imports()

    assert "" == nothing
    offered = capsys.readouterr().err
    assert "1 file of Claude Code (the oldest is deleted in 29 days)" in offered
    assert "engram import --all" in offered
