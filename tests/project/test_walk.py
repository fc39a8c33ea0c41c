"""The walks of four requests, as `python -m tools.walk` prints them."""

from __future__ import annotations

import re

import pytest

from tools.walk import WALKS, main, room_of, statement_name

HEADING = re.compile(
    r"^(\w+): \d+ functions in \d+ modules of \d+ rooms, \d+ SQL statements$", re.MULTILINE
)


def test_all_four_walks_are_printed_by_room(capsys: pytest.CaptureFixture[str]) -> None:
    main([])

    printed = capsys.readouterr().out
    assert HEADING.findall(printed) == list(WALKS)
    for walk in re.split(HEADING, printed)[2::2]:
        assert re.search(r"^  service +\d+ +\d+$", walk, re.MULTILINE)
        assert re.search(r"^  storage/\w+ +\d+ +\d+$", walk, re.MULTILINE)
    assert re.search(r"^ +1  memories.add_version$", printed, re.MULTILINE)


def test_functions_are_listed_in_the_order_of_their_first_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["append_messages", "--functions"])

    modules = re.findall(r"^  (\S+)\.py:\S+$", capsys.readouterr().out, re.MULTILINE)
    rooms = [room_of(f"{module}.py") for module in modules]
    # The background may be at work before and meanwhile.
    called = rooms[rooms.index("service", rooms.index("http")) :]
    assert called.index("storage/sqlite") < called.index("text")


def test_a_walk_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serach"])

    assert "no walk 'serach'" in capsys.readouterr().err


def test_a_statement_is_named_whatever_its_parameters_are() -> None:
    ran = (
        "-- Returns the number of the memory with that public id.\n"
        "SELECT number FROM memory\nWHERE organization_id = 7 AND id = 'mem_1';"
    )

    assert statement_name(ran) == "memories.find_memory"
    assert statement_name("BEGIN IMMEDIATE") == "BEGIN IMMEDIATE"
