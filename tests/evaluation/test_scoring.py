"""What one ranked answer is worth, counted by hand and by law."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.conversation import Conversation, Message
from engram.model.ids import ChunkId, ConversationId, MessageId
from engram.model.search import FoundMessage, SearchResult
from engram_eval.dataset import Question
from engram_eval.scoring import Hit, Places, Shown, score_answer, tokens_of
from tests.evaluation.sets import conversation_of, question_of
from tests.fakes import SOME_DAY

NAMES = "abcdefgh"

pieces = st.builds(
    Shown, message_id=st.sampled_from([None, *NAMES]), characters=st.integers(0, 9_000)
)
answers = st.lists(
    st.builds(
        Hit,
        conversation=st.sampled_from([None, *NAMES]),
        shown=st.lists(pieces, max_size=4).map(tuple),
    ),
    max_size=20,
)
golds = st.frozensets(st.sampled_from(NAMES), max_size=4)
questions = st.builds(question_of, evidence=golds, conversations=golds)


def hit(conversation: str | None, *shown: tuple[str | None, int]) -> Hit:
    """Return a result that shows messages with so many tokens each."""
    return Hit(
        conversation=conversation,
        shown=tuple(Shown(message_id=name, characters=4 * tokens) for name, tokens in shown),
    )


def test_an_answer_counted_by_hand() -> None:
    question = question_of(evidence=["a1", "b7", "c1"], conversations=["a", "c"])
    answer = [
        hit("b", ("b1", 100), ("b7", 400)),
        hit("a", ("a2", 400), ("a1", 101)),
        hit("b", (None, 3_000)),
    ]

    assert score_answer(question, answer) == {
        "session_any@5": 1.0,
        "session_recall@5": 0.5,
        "session_all@5": 0.0,
        "session_any@10": 1.0,
        "session_recall@10": 0.5,
        "session_all@10": 0.0,
        # The second piece ends at 500 tokens, the fourth at 1,001.
        "evidence@500": pytest.approx(1 / 3),
        "evidence@1000": pytest.approx(1 / 3),
        "evidence@2000": pytest.approx(2 / 3),
        "evidence@4000": pytest.approx(2 / 3),
        "message_mrr": 1 / 2,
    }
    assert tokens_of(answer) == 4_001


def test_depths_of_sessions_count_distinct_conversations() -> None:
    question = question_of(conversations=["f", "g"])
    answer = [hit(name) for name in "aabbccddeefg"]

    figures = score_answer(question, answer)

    assert (figures["session_any@5"], figures["session_recall@5"]) == (0.0, 0.0)
    assert (figures["session_any@10"], figures["session_all@10"]) == (1.0, 1.0)


def test_only_figures_that_the_evidence_allows_are_given() -> None:
    sessions = score_answer(question_of(conversations=["a"]), [])
    messages = score_answer(question_of(evidence=["a1"]), [])

    assert {name.partition("_")[0] for name in sessions} == {"session"}
    assert set(messages) == {
        *("evidence@500", "evidence@1000", "evidence@2000", "evidence@4000", "message_mrr")
    }


@given(questions, answers)
def test_figures_are_shares_and_grow_with_what_they_may_use(
    question: Question, answer: list[Hit]
) -> None:
    figures = score_answer(question, answer)

    assert all(0 <= value <= 1 for value in figures.values())
    if question.evidence:
        found = [figures[f"evidence@{tokens}"] for tokens in (500, 1000, 2000, 4000)]
        assert found == sorted(found)
        assert (figures["message_mrr"] > 0) >= (found[-1] > 0)
    if question.evidence_conversations:
        for depth in (5, 10):
            kinds = [figures[f"session_{kind}@{depth}"] for kind in ("all", "recall", "any")]
            assert kinds == sorted(kinds)
        assert figures["session_recall@5"] <= figures["session_recall@10"]


@given(questions, answers, answers)
def test_more_results_after_an_answer_never_lower_a_figure(
    question: Question, answer: list[Hit], more: list[Hit]
) -> None:
    before, after = score_answer(question, answer), score_answer(question, [*answer, *more])

    assert all(after[name] >= value for name, value in before.items())


@given(questions, answers)
def test_it_does_not_matter_how_messages_are_grouped_into_results(
    question: Question, answer: list[Hit]
) -> None:
    apart = [
        Hit(conversation=hit.conversation, shown=shown)
        for hit in answer
        for shown in (*((piece,) for piece in hit.shown), ())
    ]

    assert score_answer(question, apart) == score_answer(question, answer)
    assert tokens_of(apart) == tokens_of(answer)


def a_result(conversation: str, *messages: tuple[int, str]) -> SearchResult:
    """Return a result of a search with the text it shows of each sequence."""
    return SearchResult(
        kind="conversation",
        score=0.5,
        chunk_id=ChunkId("chunk"),
        owner=Conversation(
            id=ConversationId(conversation),
            title=None,
            agent_id=None,
            project="default",
            tags=(),
            metadata={},
            message_count=9,
            created_at=SOME_DAY,
            updated_at=SOME_DAY,
        ),
        start_sequence=1,
        end_sequence=1,
        messages=tuple(found(sequence, content) for sequence, content in messages),
    )


def found(sequence: int, content: str) -> FoundMessage:
    return FoundMessage(
        message=Message(
            id=MessageId(f"msg_{sequence}"),
            sequence=sequence,
            role="user",
            content=content,
            created_at=SOME_DAY,
        ),
        score=0.5,
    )


def shown_names(hits: Sequence[Hit]) -> list[tuple[str | None, list[str | None]]]:
    return [(hit.conversation, [shown.message_id for shown in hit.shown]) for hit in hits]


def test_an_excerpt_is_paid_for_and_not_credited() -> None:
    places = Places()
    places.record(ConversationId("conv_1"), conversation_of("a", "Good morning.", "Good night."))

    hits = places.hits([a_result("conv_1", (2, "Good night."), (1, "Good"))])

    assert shown_names(hits) == [("a", ["a2", None])]
    assert tokens_of(hits) == 15 / 4


def test_what_is_not_of_the_set_takes_no_place_among_sessions() -> None:
    places = Places()
    places.record(ConversationId("conv_1"), conversation_of("a", "Good morning."))

    hits = places.hits([a_result("conv_9", (1, "Good morning.")), a_result("conv_1")])

    assert shown_names(hits) == [(None, [None]), ("a", [])]
    assert places.message_count == 1
