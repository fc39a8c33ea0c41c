"""Evaluation sets from files: what they hold, and how their mistakes are told."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import InvalidRequestError
from engram_eval.reading import find_sets, parse_row, read_set
from tests.evaluation.sets import SMALL_SET, a_conversation, a_message, a_question, write_set

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ["small.dev.jsonl.gz", "small.jsonl"])
def test_a_set_holds_its_haystacks_with_their_conversations_and_questions(
    tmp_path: Path, name: str
) -> None:
    small = read_set(write_set(tmp_path / name))

    home, sea = small.haystacks
    assert small.name == "small.own"
    assert [conversation.id for conversation in home.conversations] == ["monday", "tuesday"]
    assert [question.until for question in home.questions] == [None, "tuesday", None]
    asked = datetime(2024, 5, 6, 19, tzinfo=UTC)
    assert [question.asked_at for question in home.questions] == [None, asked, None]
    assert [conversation.id for conversation in sea.conversations] == ["long"]
    assert (small.message_count, small.question_count) == (4, 4)


def test_messages_have_the_date_of_their_conversation_unless_they_have_one(tmp_path: Path) -> None:
    home, sea = read_set(write_set(tmp_path / "small.jsonl")).haystacks

    monday, tuesday = home.conversations
    dates = [message.draft.occurred_at for message in monday.messages]
    assert dates == [datetime(2024, 5, 6, tzinfo=UTC)] * 2
    assert tuesday.messages[0].draft.occurred_at is None
    assert sea.conversations[0].messages[0].draft.occurred_at == datetime(
        2024, 5, 7, 10, 30, tzinfo=UTC
    )


def test_a_conversation_is_titled_by_its_title_else_its_date_else_its_id(tmp_path: Path) -> None:
    home, sea = read_set(write_set(tmp_path / "small.jsonl")).haystacks

    conversations = (*home.conversations, *sea.conversations)
    assert [each.draft.title for each in conversations] == ["2024-05-06", "Family", "long"]


def test_the_questions_of_a_haystack_are_foreign_to_the_one_before_it(tmp_path: Path) -> None:
    home, sea = read_set(write_set(tmp_path / "small.jsonl")).haystacks

    # No more of them than it has of its own.
    assert home.foreign == sea.questions
    assert sea.foreign == home.questions[:1]


def test_a_lone_haystack_has_no_foreign_questions(tmp_path: Path) -> None:
    lines = [line for line in SMALL_SET if line.get("scope") != "sea"]

    assert [
        each.foreign for each in read_set(write_set(tmp_path / "x.jsonl", lines)).haystacks
    ] == [()]


def test_a_question_may_have_a_date_an_answer_words_to_deliver_and_labels(tmp_path: Path) -> None:
    asked = a_question(
        "?",
        evidence=["m1"],
        date="2024-05-09T10:00",
        answer="a",
        verbatim="b",
        labels={"size": "c"},
    )

    [home] = read_set(write_set(tmp_path / "set.jsonl", [*SMALL_SET[:2], asked])).haystacks

    [question] = home.questions
    assert question.asked_at == datetime(2024, 5, 9, 10, tzinfo=UTC)
    assert (question.answer, question.verbatim, question.labels) == ("a", "b", {"size": "c"})


def test_documents_are_kept_as_documents(tmp_path: Path) -> None:
    lines = [
        a_conversation("paper", a_message("p", "Tides.", role="document")),
        a_question("Tides?", evidence=["p"]),
    ]

    documents = read_set(write_set(tmp_path / "papers.jsonl", lines))

    assert documents.haystacks[0].conversations[0].messages[0].draft.role == "document"


def test_a_set_without_a_name_is_called_as_its_file(tmp_path: Path) -> None:
    lines = SMALL_SET[1:]

    assert read_set(write_set(tmp_path / "chats.dev.jsonl.gz", lines)).name == "chats.dev"


def test_empty_lines_and_pairs_are_passed_over(tmp_path: Path) -> None:
    path = write_set(tmp_path / "small.jsonl", [*SMALL_SET, {"type": "pair", "a": "x"}])
    path.write_bytes(b"\n" + path.read_bytes() + b"  \n")

    assert read_set(path).question_count == 4


def refused(path: Path) -> str:
    """Return where `read_set` says a mistake is, and which."""
    with pytest.raises(InvalidRequestError) as caught:
        read_set(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ([], "must be a JSON object"),
        ({"type": "answer"}, "type"),
        ({"type": "meta", "name": "x"}, "split"),
        ({"type": "conversation", "id": "x", "messages": []}, "haystack"),
        (a_conversation("x") | {"messages": "none"}, "messages"),
        (a_conversation("x", date="tomorrow"), "date"),
        (a_conversation("x", a_message("1"), a_message("2", role="cat")), r"messages\[1\].role"),
        (a_conversation("x", {"id": "1", "role": "user"}), r"messages\[0\].content"),
        (a_conversation("x", a_message("1", name="a\x07b")), r"messages\[0\].name"),
        (a_conversation("monday"), "id"),
        (a_conversation("x", a_message("m1")), r"messages\[0\].id"),
        (a_question("  ", evidence=["m1"]), "question"),
        (a_question("x" * (limits.QUERY_BYTES_MAX + 1), evidence=["m1"]), "question"),
        (a_question("?", evidence="m1"), "evidence"),
        (a_question("?", evidence=[1]), "evidence"),
        (a_question("?", scope="moon", evidence=["m1"]), "scope"),
        (a_question("?", evidence=["m9"]), "evidence"),
        (a_question("?", evidence_conversations=["sunday"]), "evidence_conversations"),
        (a_question("?", evidence=["m1"], until="sunday"), "until"),
        (a_question("?", evidence=["m1"], date="soon"), "date"),
        (a_question("?", evidence=["m1"], answer=7), "answer"),
        (a_question("?", evidence=["m1"], labels=["x"]), "labels"),
        (a_question("?", evidence=["m1"], labels={"size": 1}), "labels"),
    ],
)
def test_a_wrong_line_is_told_with_its_file_and_number_and_field(
    tmp_path: Path, line: object, field: str
) -> None:
    path = write_set(tmp_path / "small.jsonl", [*SMALL_SET, line, *SMALL_SET[:1]])

    told = refused(path)

    assert re.match(rf"{re.escape(str(path))}, line {len(SMALL_SET) + 1}: {field}\b", told), told


def test_a_line_that_is_not_json_is_told_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "small.jsonl"
    path.write_text('{"type": "meta", "name": "a", "split": "b"}\n{"type": \n')

    assert f"{path}, line 2: character" in refused(path)


def test_a_damaged_archive_is_told_with_the_line_it_was_read_to(tmp_path: Path) -> None:
    path = write_set(tmp_path / "small.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-20])

    assert re.match(rf"{re.escape(str(path))}, line \d+: cannot be read", refused(path))


def test_a_line_beyond_its_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_set(tmp_path / "small.jsonl")
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 100)

    assert f"{path}, line 2: at most 100 bytes" in refused(path)


@pytest.mark.parametrize("lines", [[], SMALL_SET[:4], [*SMALL_SET[:4], a_question("?")]])
def test_a_set_in_which_nothing_can_be_found_is_refused(
    tmp_path: Path, lines: list[dict[str, Any]]
) -> None:
    path = write_set(tmp_path / "empty.jsonl", lines)

    assert refused(path) == f"{path}: contains no question with evidence"


@given(JSON, st.sampled_from([*SMALL_SET[:2], SMALL_SET[4]]), st.data())
def test_any_line_is_a_row_or_refused(value: object, line: dict[str, Any], data: Any) -> None:
    key = data.draw(st.sampled_from(sorted(line)))

    for changed in (value, {**line, key: value}):
        try:
            parse_row(json.dumps(changed).encode())
        except InvalidRequestError:
            continue


@given(st.binary(max_size=50))
def test_bytes_without_sense_are_refused(line: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse_row(line)


def test_names_are_looked_up_in_the_directory_and_paths_are_not(tmp_path: Path) -> None:
    own, known = write_set(tmp_path / "own.jsonl"), write_set(tmp_path / "known.dev.jsonl.gz")

    assert find_sets(["known", str(own)], directory=tmp_path) == (known, own)


@pytest.mark.parametrize("sets", [[], ["unknown"], ["known", "missing.jsonl"]])
def test_unknown_sets_are_refused_with_those_that_are_there(
    tmp_path: Path, sets: list[str]
) -> None:
    (tmp_path / "known.dev.jsonl.gz").write_bytes(gzip.compress(b""))

    with pytest.raises(InvalidRequestError, match=r"available in .*: known$"):
        find_sets(sets, directory=tmp_path)
