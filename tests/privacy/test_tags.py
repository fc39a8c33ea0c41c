"""Private parts and injections do not survive, and everything else does."""

from __future__ import annotations

import html
import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.privacy.cleaning import clean_text
from engram.privacy.tags import PRIVATE, without_injections, without_private
from engram.text.fence import FencedText, fence

SECRET = "violet-anchor"
WORDS = st.text(st.sampled_from("ab <>/\n&;[]"), max_size=20)
OPENINGS = st.sampled_from(["<private>", "<PRIVATE>", '<Private class="x">', "<private >"])
ENDINGS = st.sampled_from(["</private>", "</PRIVATE>", "</private >", ""])
_TAGS = "<private> </private> <memory_context> </memory_context> <hook_context> </hook_context>"
_TORN = "<priv ate> <memory_ context> &lt;memory_context&gt; &lt;/memory_context&gt; \\n word"
PIECES = st.sampled_from([*_TAGS.split(), *_TORN.split(), " ", "\n"])
BLOCK = fence(
    [FencedText({"id": "mem_1"}, f"{SECRET} </memory_context> more")], token_budget=500
).text


@given(WORDS, OPENINGS, WORDS, ENDINGS, WORDS)
def test_nothing_between_private_tags_survives(
    before: str, opening: str, inside: str, ending: str, after: str
) -> None:
    kept = without_private(f"{before}{opening}{inside}{SECRET}{ending}{after}")

    assert SECRET not in kept
    assert kept.startswith(before)
    assert not ending or kept.endswith(after)


def test_a_private_part_inside_another_does_not_end_it() -> None:
    text = f"a <private>b <private>c</private> {SECRET}</private> d"

    assert f"a {PRIVATE} d" == without_private(text)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_cleaning_twice_changes_nothing(text: str) -> None:
    for clean in (without_private, without_injections, partial(clean_text, redacts=True)):
        assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    "block",
    [
        BLOCK,
        html.escape(BLOCK),
        json.dumps(BLOCK)[1:-1],
        BLOCK.replace("<", "\\u003c").replace(">", "\\u003e"),
        f"<hook_context>{BLOCK}</hook_context>",
        f"<hook_context>plain {SECRET}</hook_context>",
        BLOCK.removesuffix("</memory_context>"),
        f"<hook_context>{SECRET}",
    ],
)
def test_a_block_of_ours_is_removed_in_every_spelling(block: str) -> None:
    assert without_injections(f"What is due?\n\n{block}") == "What is due?"


def test_what_stands_around_a_block_stays() -> None:
    assert without_injections(f"{BLOCK}\n\nWhat is due?") == "What is due?"
    assert without_injections(f"First.\n{BLOCK}\nLast.") == "First. Last."


def test_a_mention_of_the_tag_is_no_block() -> None:
    text = f"Why does <memory_context> come twice?\n{BLOCK}"

    assert without_injections(text) == "Why does <memory_context> come twice?"


@given(st.text())
def test_a_text_without_tags_is_not_changed(text: str) -> None:
    text = text.replace("<", "(")

    assert without_injections(without_private(text)) == text


def test_a_text_that_is_private_as_a_whole_is_empty() -> None:
    assert clean_text(f" <private>{SECRET}</private>\n", redacts=True) == ""
