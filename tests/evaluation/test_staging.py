"""What is stored before which question, and in which appends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram_eval.dataset import (
    BATCH_CHARACTERS_MAX,
    BATCH_MESSAGES_MAX,
    EvaluationConversation,
    Haystack,
    batches_of,
    limit_questions,
    stages_of,
)
from tests.evaluation.sets import conversation_of, question_of, set_of


@st.composite
def haystacks(draw: st.DrawFn) -> Haystack:
    """Return conversations 0, 1, 2 … and questions asked before some of them, or at the end."""
    names = [str(number) for number in range(draw(st.integers(0, 6)))]
    untils = draw(st.lists(st.sampled_from([None, *names]), max_size=8))
    return Haystack(
        id="any",
        conversations=tuple(conversation_of(name) for name in names),
        questions=tuple(
            question_of(str(number), evidence=["x"], until=until)
            for number, until in enumerate(untils)
        ),
    )


@given(haystacks())
def test_everything_is_stored_once_in_order_and_every_question_asked_once(
    haystack: Haystack,
) -> None:
    stages = list(stages_of(haystack))

    stored = [conversation for stage in stages for conversation in stage.conversations]
    asked = [question.id for stage in stages for question in stage.questions]
    assert stored == list(haystack.conversations)
    assert sorted(asked) == sorted(question.id for question in haystack.questions)


@given(haystacks())
def test_a_question_sees_exactly_what_comes_before_its_until(haystack: Haystack) -> None:
    names = [conversation.id for conversation in haystack.conversations]
    stored = list[EvaluationConversation]()

    for stage in stages_of(haystack):
        stored.extend(stage.conversations)
        for question in stage.questions:
            before = names if question.until is None else names[: names.index(question.until)]
            assert [conversation.id for conversation in stored] == before


@given(st.lists(st.integers(0, 90_000), max_size=12), st.integers(0, 250))
def test_batches_join_back_and_keep_their_bounds(sizes: list[int], short: int) -> None:
    conversation = conversation_of("a", *("x" * size for size in sizes), *["x"] * short)

    batches = list(batches_of(conversation.messages))

    assert tuple(message for batch in batches for message in batch) == conversation.messages
    for batch in batches:
        characters = sum(len(message.draft.content) for message in batch)
        assert 1 <= len(batch) <= BATCH_MESSAGES_MAX
        assert len(batch) == 1 or characters <= BATCH_CHARACTERS_MAX


def test_a_message_larger_than_a_batch_is_appended_alone() -> None:
    conversation = conversation_of("a", "x", "y" * (BATCH_CHARACTERS_MAX + 1), "z")

    assert [len(batch) for batch in batches_of(conversation.messages)] == [1, 1, 1]


@given(st.lists(haystacks(), max_size=4), st.integers(1, 12) | st.none())
def test_the_first_questions_are_asked_and_no_more(
    stacks: list[Haystack], questions_max: int | None
) -> None:
    whole = set_of(*stacks)

    part = limit_questions(whole, questions_max=questions_max)

    asked = [question for haystack in whole.haystacks for question in haystack.questions]
    kept = [question for haystack in part.haystacks for question in haystack.questions]
    assert kept == asked[:questions_max]
    assert [each.id for each in part.haystacks] == [each.id for each in stacks][
        : len(part.haystacks)
    ]
