"""Answers that a language model writes from spans; whatever it does, the spans are there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from engram.errors import LanguageModelError
from engram.language.citing import checked_answer, cited_prompt
from engram.language.port import LanguageModel
from engram.model.document_query import CitedAnswer, Span
from engram.offload import offload

logger = logging.getLogger(__name__)

NO_ANSWER = "language_model"
CITATIONS_DROPPED = "citations_dropped"
NOT_CITED = "answer_without_citations"


async def answer_from(
    model: LanguageModel, question: str, spans: Sequence[Span]
) -> tuple[CitedAnswer | None, tuple[str, ...]]:
    """Return what a model answers from spans, and what is amiss with that."""
    characters = sum(len(span.text) for span in spans)
    prompt, told = await offload(partial(cited_prompt, question, spans), characters=characters)
    try:
        written = await model.complete(prompt)
    except LanguageModelError as exc:
        logger.warning("a question to a document is not answered: %s", exc.message)
        return None, (NO_ANSWER,)
    answer = await offload(partial(checked_answer, written, told=told), characters=len(written))
    if not answer.text:
        return None, (NO_ANSWER,)
    amiss = [
        *([CITATIONS_DROPPED] if answer.dropped else []),
        *([] if answer.cited else [NOT_CITED]),
    ]
    return answer, tuple(amiss)
