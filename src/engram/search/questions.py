"""Tell general questions and topics from questions that something specific answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from engram.model.recall import OverviewReason
from engram.text.analyse import query_terms
from engram.text.english import STOP_WORDS

_WORDS: Mapping[OverviewReason | None, str] = {
    "open": "open todo task pending unfinished remaining outstanding left leave blocked blocker next step",
    "decision": "decision decide decided agreed conclusion",
    "preference": "preference prefer habit convention",
    "latest": """recent recently latest last current currently new newest now today yesterday week
        lately far status state progress update news change activity happen happened""",
    None: """project work working worked session conversation chat memory remember recall note context
        background history overview summary summarize summarise brief briefing recap digest
        important relevant useful key main general everything anything something thing stuff info
        information detail fact know known knowledge learn learned tell give show list get fetch
        load need let catch bring start starting begin beginning resume continue pick plan goal
        user me us team off time previous previously past earlier prior stand point help please hello hi""",
}
"""The vocabulary of questions about everything, and what each word asks for."""


_QUESTION_WORDS = frozenset(
    [
        "what",
        "who",
        "whom",
        "whose",
        "which",
        "when",
        "where",
        "why",
        "how",
        "is",
        "are",
        "was",
        "were",
        "do",
        "does",
        "did",
        "can",
        "could",
        "may",
        "might",
        "must",
        "should",
        "shall",
        "will",
        "would",
        "has",
        "have",
        "had",
    ]
)
"""A query that begins with one of these is a question."""

TOPIC_TERMS_MAX = 4
"""A longer query says enough of what it is about to be judged as a question is."""

QUERY_CHARACTERS_MAX = 200
"""A longer query is neither general nor a topic."""


@cache
def _meanings() -> dict[str, OverviewReason | None]:
    """Return the general words in their normal forms."""
    return {term: reason for reason, words in _WORDS.items() for term in query_terms(words)}


def general_reasons(query: str) -> frozenset[OverviewReason] | None:
    """Return what a general question asks for in particular; None if the question is specific.

    A question is general if none of its words names a subject: all of them are stop words, or words
    that would fit a question about any work.
    """
    if len(query) > QUERY_CHARACTERS_MAX:
        return None
    meanings = _meanings()
    terms = query_terms(query)
    if not terms or any(term not in meanings and term not in STOP_WORDS for term in terms):
        return None
    return frozenset(reason for term in terms if (reason := meanings.get(term)) is not None)


def names_topic(query: str) -> bool:
    """Return True if a query is a few words that name a topic, and not a question."""
    stripped = query.strip().casefold()
    if len(stripped) > QUERY_CHARACTERS_MAX or stripped.endswith(
        ("?", "\N{FULLWIDTH QUESTION MARK}")
    ):
        return False
    first = stripped.partition(" ")[0]
    return first not in _QUESTION_WORDS and len(query_terms(stripped)) <= TOPIC_TERMS_MAX
