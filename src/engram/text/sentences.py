"""The sentences of messages that are looked at by themselves."""

from __future__ import annotations

from engram.limits import (
    MESSAGE_SENTENCE_TOKENS_MIN,
    SENTENCES_FROM_TOKENS,
    SENTENCES_UPTO_TOKENS,
)
from engram.text.passages import CHARACTERS_PER_TOKEN_MAX, Passage, join_short_sentences
from engram.text.tokens import count_tokens

SENTENCES_UPTO_CHARACTERS = SENTENCES_UPTO_TOKENS * CHARACTERS_PER_TOKEN_MAX


def message_sentences(content: str) -> list[Passage]:
    """Return the sentences of a message that have vectors of their own beside the message's.

    They join back to the content. A sentence of fewer than about eight words is joined with the next.
    There are none in a message too short or too long for them, or of a single sentence.
    """
    if len(content) > SENTENCES_UPTO_CHARACTERS:
        return []
    if not SENTENCES_FROM_TOKENS <= count_tokens(content) <= SENTENCES_UPTO_TOKENS:
        return []
    sentences = list(join_short_sentences(content, _visible_tokens, MESSAGE_SENTENCE_TOKENS_MIN))
    return sentences if len(sentences) > 1 else []


def _visible_tokens(text: str) -> int:
    """Return the tokens of a text without those of the white space around it."""
    return count_tokens(text.strip())
