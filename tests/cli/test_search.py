"""`engram search`: the answer as JSON and as text."""

from __future__ import annotations

import pytest
from dirty_equals import IsFloat, IsPartialDict, IsStr

from tests.cli.commands import Engram


def found_sequences(engram: Engram, *arguments: str) -> list[int]:
    """Return the sequences of the messages that a search finds, in order of sequence."""
    answer = engram("search", *arguments, "--json").json
    return sorted(m["sequence"] for result in answer["results"] for m in result["messages"])


def test_json_answer_has_the_shape_of_the_other_transports(
    engram: Engram, conversation: str
) -> None:
    answer = engram("search", "flight friday", "--json").json

    assert answer == IsPartialDict(truncated=False, pending=0, degraded=["words_only"])
    assert answer["results"][0] == IsPartialDict(
        kind="conversation",
        score=IsFloat(gt=0, le=1),
        conversation_id=conversation,
        conversation_title="Lisbon",
        tags=["travel"],
    )
    assert answer["results"][0]["messages"][0] == IsPartialDict(
        sequence=2, role="assistant", content="The flight to Lisbon leaves on Friday."
    )


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--role", "user"), [1, 3]),
        (("--role", "assistant"), [2]),
        (("--tag", "travel"), [1, 2, 3]),
        (("--tag", "travel", "--tag", "work"), []),
        (("--project", "default"), [1, 2, 3]),
        (("--project", "other"), []),
        (("--agent", "nobody"), []),
        (("--since", "1h"), [1, 2, 3]),
        (("--since", "2200-01-01"), []),
        (("--before", "2001-01-01T00:00:00Z"), []),
        (("--kind", "conversation"), [1, 2, 3]),
        (("--min-score", "1"), [1, 2]),
    ],
)
def test_filters_reach_the_search(
    engram: Engram, conversation: str, filters: tuple[str, ...], found: list[int]
) -> None:
    # The third message does not name Lisbon; it is found, below the others, in their company.
    assert found_sequences(engram, "Lisbon", "-c", conversation, *filters) == found


def test_text_says_who_said_what_when(engram: Engram, conversation: str) -> None:
    engram("conversations", "append", "Lisbon is sunny", "-c", conversation, "--name", "Ann")

    found = engram("search", "sunny")

    lines = found.stdout.splitlines()
    assert lines[0] == IsStr(regex=rf"1\. Lisbon \[travel\]  \d\.\d\d  {conversation} #\d-\d")
    assert IsStr(regex=r"  Ann \(user\)  #4  \d{4}-\d\d-\d\d \d\d:\d\dZ  \d\.\d\d") in lines
    assert "    Lisbon is sunny" in lines
    assert "words only" in found.stderr


def test_explain_shows_the_legs_of_a_score(engram: Engram, conversation: str) -> None:
    as_json = engram("search", "flight", "--explain", "--json").json
    as_text = engram("search", "flight", "--explain")

    breakdown = as_json["results"][0]["messages"][0]["score_breakdown"]
    for leg in breakdown["legs"]:
        assert leg in as_text.stdout


def test_window_shows_the_chunk(engram: Engram, conversation: str) -> None:
    found = engram("search", "flight", "--detail", "window")

    assert "  [assistant]: The flight to Lisbon leaves on Friday." in found.stdout.splitlines()


def test_handle_says_how_to_read_on(engram: Engram, conversation: str) -> None:
    found = engram("search", "flight", "--detail", "handle")

    assert f"engram conversations show {conversation} --around " in found.stdout
    assert "leaves on Friday" not in found.stdout


def test_nothing_found_is_no_failure(engram: Engram, conversation: str) -> None:
    found = engram("search", "xylophone")

    assert (found.status, found.stdout) == (0, "")
    assert found.stderr.startswith("0 results")


@pytest.mark.parametrize("query", ['"', "NEAR(", "a:b -x *", "!?", "🙂", "x" * 100_000])
def test_any_query_is_safe(engram: Engram, conversation: str, query: str) -> None:
    assert engram("search", "--json", "--", query).status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("",),
        ("x" * 100_001,),
        ("x", "--limit", "0"),
        ("x", "--limit", "51"),
        ("x", "--budget", "99"),
        ("x", "--role", "king"),
        ("x", "--kind", "song"),
        ("x", "--detail", "all"),
        ("x", "--min-score", "1.1"),
        ("x", "--since", "yesterday"),
        ("x", "--since", "999999w"),
        ("x", "--since", "1d", "--before", "2d"),
        ("x", "--tag", ""),
        ("x", "--conversation", "conv_unknown"),
        ("x", "--unknown"),
        (),
    ],
)
def test_mistakes_are_refused_without_a_traceback(
    engram: Engram, arguments: tuple[str, ...]
) -> None:
    refused = engram("search", *arguments)

    assert (refused.status, refused.stdout) == (2, "")
    assert "error: " in refused.stderr.lower()
    assert "Traceback" not in refused.stderr


def test_memories_are_shown_with_what_is_known_of_them(engram: Engram, conversation: str) -> None:
    added = engram("notes", "add", "Lisbon has\n\x1b[31mtrams", "--category", "technical", "--json")
    (memory_id,) = [each["id"] for each in added.json["notes"]]

    found = engram("search", "Lisbon trams", "--kind", "note", "--explain")

    assert f"1. note: context, technical  1.00  {memory_id}\n" in found.stdout
    assert "  Lisbon has\n  \\x1b[31mtrams\n" in found.stdout
    assert "ordered by" in found.stdout
    assert "Lisbon leaves" not in found.stdout


def test_a_memory_that_is_not_shown_says_how_it_is_read(engram: Engram) -> None:
    engram("notes", "add", "Lisbon has trams")

    found = engram("search", "Lisbon", "--detail", "handle")

    assert "not shown; engram memories show mem_" in found.stdout


def test_a_cut_answer_names_the_bound_that_cut_it(engram: Engram) -> None:
    for number in range(4):
        engram("notes", "add", f"The lighthouse number {number} is green. " * 12)

    by_limit = engram(
        "search", "lighthouse", "--limit", "1", "--detail", "handle", "--budget", "9000"
    )
    few = engram("search", "lighthouse", "--limit", "2", "--detail", "window", "--budget", "9000")
    by_budget = engram("search", "lighthouse", "--budget", "250")

    assert "raise --limit" in few.stderr
    assert "raise --limit" in by_limit.stderr
    assert "raise --budget" in by_budget.stderr
