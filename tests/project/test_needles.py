"""The generated set of things planted in long texts: what it holds, and that it is always the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from bench.needles.__main__ import write_needles
from bench.needles.generate import PLACES, SIZES, rows
from bench.needles.plants import KINDS
from engram.text.quoting import quote_after
from engram_eval.dataset import EvaluationSet, Question
from engram_eval.reading import read_set
from engram_eval.scoring import SentText, fold


@pytest.fixture(scope="module")
def needles(tmp_path_factory: pytest.TempPathFactory) -> EvaluationSet:
    """Return the set as `engram eval` reads it."""
    path = tmp_path_factory.mktemp("needles") / "needles.jsonl.gz"
    write_needles(path)
    return read_set(path)


@pytest.fixture(scope="module")
def contents(needles: EvaluationSet) -> dict[str, str]:
    """Return the texts of all messages by id."""
    return {
        message.id: message.draft.content
        for haystack in needles.haystacks
        for conversation in haystack.conversations
        for message in conversation.messages
    }


def identifier_in(question: Question) -> str:
    """Return the identifier that a question asks for."""
    shared = [word for word in question.text.strip("?").split() if word in question.verbatim]
    return max(shared, key=len)


def test_every_planted_text_stands_in_one_message_which_is_its_evidence(
    needles: EvaluationSet, contents: dict[str, str]
) -> None:
    for haystack in needles.haystacks:
        whole = "\n".join(
            contents[message.id] for each in haystack.conversations for message in each.messages
        )
        for question in haystack.questions:
            [evidence] = question.evidence
            assert question.verbatim in contents[evidence]
            assert whole.count(question.verbatim) == 1
            if question.category == "identifier":
                assert whole.count(identifier_in(question)) == 1


def test_a_message_that_is_sent_whole_delivers_what_lies_in_it(
    needles: EvaluationSet, contents: dict[str, str]
) -> None:
    sent = {
        identity: SentText(quote_after("#1 tool:", content))
        for identity, content in contents.items()
    }
    for question in (each for haystack in needles.haystacks for each in haystack.questions):
        [evidence] = question.evidence
        assert sent[evidence].holds(fold(question.verbatim))


def test_there_are_enough_questions_of_every_kind_size_and_place(needles: EvaluationSet) -> None:
    questions = [question for haystack in needles.haystacks for question in haystack.questions]

    assert len(questions) >= 300
    for label, values in (
        ("kind", KINDS),
        ("size", [f"{size.kilobytes} KB" for size in SIZES]),
        ("place", PLACES),
    ):
        counts = Counter(question.labels[label] for question in questions)
        assert counts.keys() == set(values)
        assert min(counts.values()) >= 50


def test_texts_have_the_size_and_things_the_place_they_are_labelled_with(
    needles: EvaluationSet, contents: dict[str, str]
) -> None:
    for question in (each for haystack in needles.haystacks for each in haystack.questions):
        text = contents[next(iter(question.evidence))]
        kilobytes = int(question.labels["size"].removesuffix(" KB"))
        at = text.index(question.verbatim) / len(text)

        assert kilobytes * 1_000 <= len(text) <= kilobytes * 1_000 * 2
        if kilobytes > 3:
            thirds = {"beginning": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "end": (2 / 3, 1)}
            low, high = thirds[question.labels["place"]]
            assert low <= at <= high


def test_a_question_for_a_fact_shares_few_words_with_it(needles: EvaluationSet) -> None:
    for question in (each for haystack in needles.haystacks for each in haystack.questions):
        if question.category == "paraphrase":
            asked, told = (
                set(each.lower().strip("?.").split()) for each in (question.text, question.verbatim)
            )
            assert len(asked & told) <= len(asked) // 2


def test_every_run_generates_the_same_set(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"

    write_needles(first)
    write_needles(second)

    assert first.read_bytes() == second.read_bytes()
    assert next(rows()) == {"type": "meta", "name": "needles", "split": "own"}
