"""Processing the longest messages never holds the GIL for long."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from engram.api.encoding import to_json
from engram.limits import INSTANT_PASSAGE_TOKENS, INSTANT_PASSAGES_MAX, MESSAGE_BYTES_MAX
from engram.model.conversation import MessageDraft
from engram.text.analyse import message_words, part_words
from engram.text.passages import iterate_passages
from tests.promises import promise
from tests.steps import STEP_MS_MAX, longest_step

pytestmark = promise("fair")

UNITS = {
    "dots": ".",
    "one word": "a",
    "blanks": " ",
    "marks": "\u0301",
    "quotes": '"\n',
    "words": "alpha beta gamma delta. ",
    "colours": "\x1b[0m",
    "no blanks": "\u4e2d",
}


def longest_message(unit: str) -> str:
    """Return a message of the maximal length."""
    return unit * (MESSAGE_BYTES_MAX // len(unit.encode()))


def best_step(work: Callable[[], object]) -> tuple[float, str]:
    """Return the longest step of the best of several runs; on a busy machine it takes some to find one."""
    step = longest_step(work)
    for _ in range(19):
        if step[0] > STEP_MS_MAX:
            step = min(step, longest_step(work))
    return step


@pytest.mark.parametrize("name", [name for name in UNITS if name != "no blanks"])
def test_finding_the_words_of_a_message_holds_up_nobody(name: str) -> None:
    message = MessageDraft(role="user", content=longest_message(UNITS[name]))

    took_ms, place = best_step(lambda: part_words(message_words(message)))

    assert took_ms < STEP_MS_MAX, place


def test_finding_the_pairs_of_a_script_without_blanks_holds_up_nobody() -> None:
    # Tracing makes every bigram expensive, so a third of the maximal length has to do.
    message = MessageDraft(role="user", content="\u4e2d" * 1_000_000)

    took_ms, place = best_step(lambda: part_words(message_words(message)))

    assert took_ms < STEP_MS_MAX, place


@pytest.mark.parametrize("name", UNITS)
def test_splitting_a_message_into_passages_holds_up_nobody(name: str) -> None:
    text = longest_message(UNITS[name])

    def split() -> object:
        passages = iterate_passages(text, tokens_max=INSTANT_PASSAGE_TOKENS)
        return list(islice(passages, INSTANT_PASSAGES_MAX))

    took_ms, place = best_step(split)

    assert took_ms < STEP_MS_MAX, place


@pytest.mark.parametrize("name", UNITS)
def test_writing_an_answer_holds_up_nobody(name: str) -> None:
    answer = {"messages": [{"content": longest_message(UNITS[name])} for _ in range(3)]}

    took_ms, place = best_step(lambda: to_json(answer))

    assert took_ms < STEP_MS_MAX, place
