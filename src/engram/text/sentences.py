"""Split a text into its sentences and lines, which join back to it.

What is too short to mean anything by itself goes with what follows; what is too long is cut as passages
are.
"""

from __future__ import annotations

from collections.abc import Iterator

from engram.limits import SENTENCE_CHARACTERS_MIN, SENTENCE_TOKENS_MAX
from engram.text.passages import SENTENCE_END, Passage, count_tokens_roughly, iterate_passages
from engram.yielding import yield_to_others


def iterate_sentences(text: str) -> Iterator[Passage]:
    """Yield the sentences of a text in order: at least one, none but the last of them short."""
    for joined in _join_short(text):
        yield from _cut_long(text, joined)


def _join_short(text: str) -> Iterator[Passage]:
    """Yield sentences with those before them that are short; a short end goes with the last one."""
    held: Passage | None = None
    start = begin = visible = 0
    for match in SENTENCE_END.finditer(text):
        yield_to_others()
        visible += len(text[begin : match.end()].strip())
        begin = match.end()
        if visible < SENTENCE_CHARACTERS_MIN:
            continue
        if held is not None:
            yield held
        held, start, visible = Passage(start, begin), begin, 0
    if held is None or len(text[start:].strip()) >= SENTENCE_CHARACTERS_MIN:
        if held is not None:
            yield held
        yield Passage(start, len(text))
    else:
        yield Passage(held.start, len(text))


def _cut_long(text: str, sentence: Passage) -> Iterator[Passage]:
    said = text[sentence.start : sentence.end]
    if count_tokens_roughly(said) <= SENTENCE_TOKENS_MAX:
        yield sentence
        return
    for part in iterate_passages(said, tokens_max=SENTENCE_TOKENS_MAX):
        yield Passage(sentence.start + part.start, sentence.start + part.end)
