"""English sentences to measure with: the documentation inside Python's own standard library.

Real language compresses and repeats words as language does, comes with every interpreter, and is the
same on every run with it.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SENTENCE_CHARACTERS_MIN = 20
LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "lib2to3"}


@cache
def sentences() -> tuple[str, ...]:
    """Return every distinct sentence, in a fixed shuffled order."""
    found = {sentence: None for text in _docstrings() for sentence in _split(text)}
    shuffled = sorted(found)
    random.Random(1).shuffle(shuffled)  # noqa: S311 a fixed order, not a secret
    return tuple(shuffled)


def chat(messages: int) -> Iterator[str]:
    """Yield so many messages of one to three sentences; they repeat only when all were used."""
    choice, stock, position = random.Random(2), sentences(), 0  # noqa: S311 as above
    for _ in range(messages):
        count = choice.choice((1, 1, 2, 3))
        yield " ".join(stock[(position + i) % len(stock)] for i in range(count))
        position += count


def sized(messages: int, *, characters: int) -> Iterator[str]:
    """Yield so many messages of exactly `characters`."""
    text, position = " ".join(sentences()), 0
    for _ in range(messages):
        position = (position + characters) % (len(text) - characters)
        yield text[position : position + characters]


def _docstrings() -> Iterator[str]:
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if LEFT_OUT.isdisjoint(path.parts):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                    yield ast.get_docstring(node) or ""


def _split(text: str) -> Iterator[str]:
    for piece in re.split(r"(?<=[.!?])\s+|\n\n", text):
        sentence = " ".join(piece.split())
        if len(sentence) >= SENTENCE_CHARACTERS_MIN and sentence.isascii():
            yield sentence
