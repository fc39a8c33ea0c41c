"""What a terminal sees: colours where they are wanted, and stored text that it cannot obey."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engram.cli.output import visible, visible_line
from engram.text.quoting import is_invisible
from tests.cli.commands import Engram, inherited_environment
from tests.promises import promise

NASTY = "\x1b[31mred\x1b]0;title\x07 \x9b31m \x7f \x00 back\x08 over\rwrite"


def in_terminal(
    engram: Engram, *arguments: str, answer: str = "", columns: int = 80, **variables: str
) -> tuple[int, str]:
    """Run a command in a terminal of its own; return its status and all it shows."""
    terminal, child = pty.openpty()
    environment = {
        **inherited_environment(),
        "ENGRAM_HOME": str(engram.home),
        "TERM": "xterm-256color",
        "COLUMNS": str(columns),
        **variables,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "engram", *arguments],
        env=environment,
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
    )
    os.close(child)
    os.write(terminal, answer.encode())
    shown = read_terminal(terminal)
    return process.wait(10), shown


def read_terminal(terminal: int) -> str:
    """Return everything that is written until the other side ends."""
    shown, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # how Linux says that the last writer has left
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return shown.decode()


@pytest.mark.parametrize(
    "command",
    [
        ("conversations", "show", "ID"),
        ("conversations", "list"),
        ("search", "title"),
        ("search", "title", "--detail", "window"),
    ],
)
def test_control_characters_of_stored_text_are_shown_not_obeyed(
    engram: Engram, command: tuple[str, ...]
) -> None:
    created = engram("conversations", "create", "--title", NASTY, "--json").json
    conversation = created["conversation_id"]
    engram("conversations", "append", "-c", conversation, stdin=NASTY)

    status, shown = in_terminal(
        engram, *(conversation if part == "ID" else part for part in command)
    )

    assert status == 0
    for obeyed in ("\x1b[31m", "\x1b]0;", "\x07", "\x9b", "\x7f", "\x00", "\x08", "over\rwrite"):
        assert obeyed not in shown
    assert "\\x1b[31m" in shown


@promise("verbatim")
def test_json_keeps_stored_text_exact_and_the_terminal_safe(engram: Engram) -> None:
    appended = engram("conversations", "append", "--json", stdin=NASTY).json

    shown = engram("conversations", "show", appended["conversation_id"], "--json")

    assert shown.json["messages"][0]["content"] == NASTY
    assert visible(shown.stdout) == shown.stdout


def test_terminal_gets_colors_unless_it_is_told_not_to(engram: Engram, conversation: str) -> None:
    _, colored = in_terminal(engram, "conversations", "show", conversation)
    _, plain = in_terminal(engram, "conversations", "show", conversation, NO_COLOR="1")
    _, dumb = in_terminal(engram, "conversations", "show", conversation, TERM="dumb")

    assert "\x1b[" in colored
    assert "\x1b[" not in plain
    assert "\x1b[" not in dumb


@pytest.mark.parametrize(
    "arguments", [("conversations", "list"), ("search", "Lisbon"), ("conversations", "show", "ID")]
)
def test_a_narrow_terminal_gets_whole_ids(
    engram: Engram, conversation: str, arguments: tuple[str, ...]
) -> None:
    command = (conversation if part == "ID" else part for part in arguments)

    _, shown = in_terminal(engram, *command, columns=40, NO_COLOR="1")

    assert conversation in shown
    assert max(map(len, shown.splitlines())) <= 40


def test_a_terminal_gets_texts_wrapped_at_words_and_a_pipe_gets_them_whole(engram: Engram) -> None:
    text = "The demo is on Friday, in the room by the river, and lunch comes before it."
    appended = engram("conversations", "append", text, "--json").json

    _, narrow = in_terminal(
        engram, "conversations", "show", appended["conversation_id"], columns=30, NO_COLOR="1"
    )
    piped = engram("conversations", "show", appended["conversation_id"]).stdout

    assert "  The demo is on Friday, in\r\n  the room by the river, and\r\n" in narrow
    assert f"  {text}\n" in piped


def test_pipe_gets_whole_rows(engram: Engram, conversation: str) -> None:
    engram("conversations", "create", "--title", "long " * 50)

    rows = engram("conversations", "list").stdout.splitlines()

    assert len(rows) == 3
    assert ("long " * 50).strip() in rows[1]


def test_person_at_the_terminal_is_asked_before_something_is_gone(
    engram: Engram, conversation: str
) -> None:
    delete = ("conversations", "delete", conversation, "--forever")
    kept, question = in_terminal(engram, *delete, answer="n\n")
    still_there = engram("conversations", "show", conversation).status
    deleted, _ = in_terminal(engram, *delete, answer="y\n")

    assert (kept, still_there, deleted) == (1, 0, 0)
    assert "for good?" in question
    assert "nothing was changed" in question
    assert engram("conversations", "show", conversation).status == 2


def test_append_without_text_does_not_wait_at_a_terminal(engram: Engram) -> None:
    status, shown = in_terminal(engram, "conversations", "append")

    assert status == 2
    assert "pipe text in" in shown


def test_import_shows_its_progress(engram: Engram) -> None:
    path = engram.home.with_name("chat.jsonl")
    path.write_text("".join(json.dumps({"role": "user", "content": "x"}) + "\n" for _ in range(5)))

    status, shown = in_terminal(engram, "conversations", "append", "--jsonl", str(path))

    assert status == 0
    assert "Appending" in shown
    assert "5/5" in shown


def test_output_survives_a_terminal_without_unicode(engram: Engram) -> None:
    appended = engram("conversations", "append", "naïve 🙂", "--json").json

    _, shown = in_terminal(
        engram, "conversations", "show", appended["conversation_id"], PYTHONIOENCODING="ascii"
    )

    assert "na\\xefve \\U0001f642" in shown


@given(st.text())
def test_visible_text_holds_no_control_character_but_tab_and_newline(text: str) -> None:
    shown = visible(text)

    assert all(c in "\t\n" or not (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0) for c in shown)
    assert "\n" not in visible_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assume(not any(map(is_invisible, text)))
    assert visible(text) == visible_line(text) == text
