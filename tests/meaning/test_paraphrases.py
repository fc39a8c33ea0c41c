"""Questions find their message by meaning alone: at once, and better after deep indexing.

The bounds are a few points below what was measured; `python -m bench paraphrases` measures.
"""

from __future__ import annotations

from pathlib import Path

from bench.pairs import PAIRS, hidden
from bench.paraphrases import hidden_pairs
from engram.model.conversation import MessageDraft
from engram.text.analyse import message_words, query_terms
from tests.promises import promise


def test_no_question_shares_a_word_with_its_message() -> None:
    assert len({pair.message for pair in PAIRS}) == 100
    for pair in PAIRS:
        words = message_words(MessageDraft(role="user", content=pair.message)).split(" ")

        assert set(query_terms(pair.question)).isdisjoint(words), pair


def test_the_others_are_all_different() -> None:
    assert len(set(hidden(among=2_000))) == 2_100


@promise("findable")
async def test_paraphrases_are_found_at_once(tmp_path: Path) -> None:
    async with hidden_pairs(tmp_path, among=2_000) as memory:
        assert await memory.share_found() >= 0.57


@promise("findable")
async def test_paraphrases_are_found_better_after_deep_indexing(tmp_path: Path) -> None:
    async with hidden_pairs(tmp_path, among=200) as memory:
        await memory.index()

        assert await memory.share_found() >= 0.88
