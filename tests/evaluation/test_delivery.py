"""What a text that was sent is worth, counted by hand and by law."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens
from engram_eval.scoring import SentText, StoredTexts, evidence_curve, fold, score_sent
from tests.evaluation.sets import conversation_of, question_of

KEY = "The spare key hangs\nbehind the blue door."
FILLING = "#1 Ann: " + "nothing of note " * 300
LINE = quote_after("#2 2024-05-06 Ann:", KEY)

plain_letters = st.characters(
    max_codepoint=0x24F, exclude_categories=["C"], exclude_characters="\\&|"
)
plain_texts = st.text(plain_letters, min_size=1)
"""Texts that read the same however they are written: nothing invisible, and no escapes."""


def stored(*contents: str) -> StoredTexts:
    """Return texts stored as `a1`, `a2`, …"""
    texts = StoredTexts()
    texts.record(conversation_of("a", *contents))
    return texts


def test_evidence_counts_from_the_budget_on_that_its_end_fits_into() -> None:
    question = question_of(evidence=["a1", "a2"])
    sent = SentText(f"{LINE}\n{FILLING[:1500]}\n#3 Bob: The key is with Mei now.")

    figures = score_sent(question, sent, stored(KEY, "The key is with Mei now."))

    assert [figures[f"paid@{tokens}"] for tokens in (250, 500, 1000, 2000)] == [0.5, 1, 1, 1]
    assert 250 < sent.tokens <= 500


def test_the_cost_of_a_message_is_that_of_everything_up_to_its_end() -> None:
    sent = SentText(f"head\n{LINE}\n{FILLING}")

    assert sent.cost_of(fold(KEY)) == count_tokens(f"head\n{LINE}")


def test_a_message_in_part_or_not_yet_stored_is_no_evidence() -> None:
    question = question_of(evidence=["a1", "a9"])
    sent = SentText("#1 Ann: The spare key hangs […]")

    assert score_sent(question, sent, stored(KEY))["paid@2000"] == 0


def test_an_excerpt_with_most_words_of_the_answer_answers() -> None:
    question = question_of(evidence=["a1"], answer="Behind the blue barn door")
    excerpt = SentText("#1 Ann: […] hangs behind the blue door […]")

    figures = score_sent(question, excerpt, stored(KEY))

    assert (figures["answer@250"], figures["paid@250"]) == (1, 0)
    assert score_sent(question, SentText("#1 Ann: the blue"), stored(KEY))["answer@250"] == 0


def test_words_past_a_budget_do_not_answer_within_it() -> None:
    question = question_of(evidence=["a1"], answer="blue door")

    figures = score_sent(question, SentText(f"{FILLING}\n{LINE}"), stored(KEY))

    assert [figures[f"answer@{tokens}"] for tokens in (250, 500, 1000, 2000)] == [0, 0, 1, 1]


def test_words_to_deliver_must_stand_together() -> None:
    question = question_of(evidence=["a1"], verbatim="hangs behind")

    together, apart = SentText(LINE), SentText("#1 Ann: behind it hangs")

    assert score_sent(question, together, stored(KEY))["delivered"] == 1
    assert score_sent(question, apart, stored(KEY))["delivered"] == 0


def test_only_figures_that_the_question_allows_are_given() -> None:
    assert score_sent(question_of(conversations=["a"]), SentText(""), stored()) == {}


def test_overhead_is_what_was_sent_for_the_stored_text_in_it() -> None:
    sent = SentText(f"conv_1 Keys\n{LINE}\nnotes")

    assert stored(KEY, "ok", "elsewhere").overhead_of(sent) == sent.tokens / count_tokens(KEY)
    assert stored("elsewhere").overhead_of(sent) is None


def test_a_message_of_white_space_is_found_nowhere() -> None:
    sent = SentText(LINE)

    assert stored("\n \n \n").overhead_of(sent) is None
    assert sent.cost_of(fold(" \n")) is None


def test_a_curve_rises_with_the_tokens() -> None:
    question = question_of(evidence=["a1", "a2"])
    sent = SentText(f"{LINE}\n{FILLING}\n#3 Bob: with Mei")

    curve = evidence_curve(question, sent, stored(KEY, "with Mei"), at=(1, 100, 2_000))

    assert curve == {1: 0, 100: 0.5, 2_000: 1}
    assert evidence_curve(question_of(conversations=["a"]), sent, stored(), at=(1,)) == {}


@given(plain_texts, plain_texts, plain_texts)
def test_a_text_is_found_in_lean_lines_and_in_json_where_it_ends(
    before: str, content: str, after: str
) -> None:
    for text in (
        f"{before}\n{quote_after('#1 Ann:', content)}\n{after}",
        json.dumps({"before": before, "content": content, "after": after}, ensure_ascii=False),
    ):
        cost = SentText(text).cost_of(fold(content))

        assert (cost is None) is (not fold(content).strip())
        assert cost is None or cost <= count_tokens(text)


@given(st.text() | st.text("\\nu0aef&#x;lt |\n"))
def test_every_form_folds_to_one_character(text: str) -> None:
    whole = text + " end"

    assert SentText(whole).cost_of(fold(whole)) == count_tokens(whole)
