"""Messages are split so that the real models read every passage, whatever their script."""

from __future__ import annotations

import pytest

from engram.embedding.passages import EmbeddedText, deep_splitting, embed_texts, instant_splitting
from engram.embedding.port import Embedder

TEXTS = {
    "korean": "한국말을 " * 95,
    "chinese": "我们在港口见面。" * 59,
    "arabic": "وصلت السفينة إلى الميناء " * 19,
    "emoji": "😀 " * 239,
    "accents": "ḉ " * 239,
    "a long word": "한" * 33,
}


@pytest.mark.parametrize("name", [None, "한국말을 쓰는 사람 " * 20, "漢" * 256])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_message_of_any_script_gets_its_deep_vectors(
    arctic: Embedder, text: str, name: str | None
) -> None:
    splitting = deep_splitting(arctic, await arctic.identify())

    (passages,) = await embed_texts([EmbeddedText(name, text)], arctic, splitting=splitting)

    assert passages[0].start == 0
    assert passages[-1].end == len(text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_message_of_any_script_gets_its_instant_vectors(
    potion: Embedder, text: str
) -> None:
    (passages,) = await embed_texts(
        [EmbeddedText(None, text)], potion, splitting=instant_splitting()
    )

    assert passages[-1].end == len(text)
