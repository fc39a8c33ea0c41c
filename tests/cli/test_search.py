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
        (("--since", "yesterday"), [1, 2, 3]),
        (("--since", "3 days ago"), [1, 2, 3]),
        (("--before", "last monday"), []),
        (("--before", "2001-01-01T00:00:00Z"), []),
        (("--kind", "conversation"), [1, 2, 3]),
        (("--min-score", "0.99"), [1, 2]),
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
    assert lines[0] == f"1. Lisbon [travel]  {conversation}"
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
    assert found.stderr == "Nothing relevant. Search uses words only.\n"


@pytest.mark.parametrize("query", ['"', "NEAR(", "a:b -x *", "!?", "🙂", "x" * 100_000])
def test_any_query_is_safe(engram: Engram, conversation: str, query: str) -> None:
    assert engram("search", "--json", "--", query).status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("",),
        ("x" * 100_001,),
        ("x", "--limit", "0"),
        ("x", "--limit", "201"),
        ("x", "--token-budget", "99"),
        ("x", "--budget", "99"),
        ("x", "--role", "king"),
        ("x", "--kind", "song"),
        ("x", "--detail", "all"),
        ("x", "--min-score", "1.1"),
        ("x", "--since", "soon"),
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

    assert f"1. note: context, technical  {memory_id}  1.00\n" in found.stdout
    assert "  Lisbon has\n  \\x1b[31mtrams\n" in found.stdout
    assert "ordered by" in found.stdout
    assert "Lisbon leaves" not in found.stdout


def test_a_memory_that_is_not_shown_says_how_it_is_read(engram: Engram) -> None:
    engram("notes", "add", "Lisbon has trams")

    found = engram("search", "Lisbon", "--detail", "handle")

    assert "not shown: engram memories show mem_" in found.stdout


def test_a_conversation_that_comes_again_keeps_its_number_and_is_named_once(
    engram: Engram, conversation: str
) -> None:
    engram("notes", "add", "The flight leaves at noon")
    weaker = "A friend has a flight on some other day of the week, or so it was said"
    engram("conversations", "append", weaker, "-c", conversation)

    found = engram("search", "flight leaves friday", "--min-score", "0")

    heads = [line for line in found.stdout.splitlines() if line[:1].isdigit()]
    assert [head.partition(".")[0] for head in heads] == ["1", "2", "1"]
    assert found.stdout.count(conversation) == 1


def test_the_matching_part_of_a_long_message_has_its_range(engram: Engram) -> None:
    filling = "Nothing of note happened on that day. " * 100
    engram("conversations", "append", f"{filling}The tanuki sleeps in the attic. {filling}")

    found = engram("search", "where does the tanuki sleep", "--token-budget", "200").stdout

    shown = IsStr(regex=r"  user  #1  .*  \d\.\d\d  characters \d+-\d+ of 7632")
    assert shown in found.splitlines()
    assert IsStr(regex=r"    … .*The tanuki sleeps in the attic\..* …") in found.splitlines()


@pytest.mark.parametrize(
    ("bound", "remedy"),
    [
        (("--limit", "1"), "more was found: raise --limit"),
        (("--token-budget", "100"), "more was found: raise --token-budget"),
    ],
)
def test_the_bound_that_cut_is_named(engram: Engram, bound: tuple[str, ...], remedy: str) -> None:
    for number in range(6):
        engram("notes", "add", f"The tanuki of room {number} sleeps. " * 5)

    found = engram("search", "tanuki sleeps", *bound)

    assert remedy in found.stderr
    assert "not shown: engram memories show mem_" in found.stdout
    assert "more was found" not in engram("search", "tanuki sleeps").stderr


def test_weaker_results_are_counted_and_can_be_asked_for(engram: Engram) -> None:
    engram("notes", "add", "The tanuki sleeps in the attic of the house")
    engram("notes", "add", "The attic was painted green by someone whom nobody remembers")

    found = engram("search", "tanuki sleeps attic")
    everything = engram("search", "tanuki sleeps attic", "--min-score", "0")

    assert "painted green" not in found.stdout
    assert "1 weaker candidate left out: --min-score 0 shows them" in found.stderr
    assert "painted green" in everything.stdout
    assert "weaker" not in everything.stderr


def test_what_is_not_relevant_costs_one_line(engram: Engram, conversation: str) -> None:
    query = "which painter did Bo and Cy meet in the museum of Lisbon in May"

    found = engram("search", query)
    everything = engram("search", query, "--min-score", "0")

    assert found.stdout == ""
    assert found.stderr.startswith("Nothing relevant; ")
    assert "--min-score 0 shows them" in found.stderr
    assert "The flight to Lisbon leaves on Friday." in everything.stdout
