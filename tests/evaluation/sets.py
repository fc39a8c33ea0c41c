"""Small evaluation sets of our own, as files and as values."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from engram.model.conversation import ConversationDraft, MessageDraft
from engram_eval.dataset import (
    EvaluationConversation,
    EvaluationMessage,
    EvaluationSet,
    Haystack,
    Question,
)

LONG_TEXT = "The tide at the harbour of Sines is highest at noon. " * 50
"""About 660 tokens: evidence that does not fit into the first 500."""


def a_message(identity: str, content: str = "", **fields: Any) -> dict[str, Any]:
    """Return a message of a conversation's line."""
    return {"id": identity, "role": "user", "content": content, **fields}


def a_conversation(
    identity: str, *messages: dict[str, Any], haystack: str = "home", **fields: Any
) -> dict[str, Any]:
    """Return a conversation's line."""
    line = {"type": "conversation", "id": identity, "haystack": haystack}
    return {**line, "messages": list(messages), **fields}


def a_question(text: str, *, scope: str = "home", **fields: Any) -> dict[str, Any]:
    """Return a question's line."""
    return {"type": "question", "id": text, "scope": scope, "question": text, **fields}


SMALL_SET: Sequence[dict[str, Any]] = (
    {"type": "meta", "name": "small", "split": "own"},
    a_conversation(
        "monday",
        a_message("m1", "The spare key hangs behind the blue door.", name="Ann"),
        a_message("m2", "Thank you."),
        date="2024-05-06",
    ),
    a_conversation("tuesday", a_message("t1", "My sister Ines plays the cello."), title="Family"),
    a_conversation("long", a_message("l1", LONG_TEXT, date="2024-05-07 10:30"), haystack="sea"),
    a_question(
        "Where does the spare key hang?",
        answer="It is behind a blue door.",
        evidence=["m1"],
        evidence_conversations=["monday"],
        category="place",
    ),
    a_question(
        "Who plays the cello?",
        evidence=["t1"],
        evidence_conversations=["tuesday"],
        until="tuesday",
        date="2024-05-06T19:00",
        category="person",
    ),
    a_question("What does Ines play?", evidence=[], evidence_conversations=["tuesday"]),
    a_question(
        "When is the tide highest at the harbour?",
        scope="sea",
        evidence=["l1"],
        evidence_conversations=["long"],
        category="place",
    ),
    a_question("What was never said?", evidence=[]),
)
"""The key and the cello are found, the cello not before it was told of, the tide only in a large budget."""

SMALL_SET_FIGURES = {
    # Of the key, the cello too early, and the tide.
    "evidence@500": 33.33,
    "evidence@1000": 66.67,
    "evidence@2000": 66.67,
    "evidence@4000": 66.67,
    "message_mrr": 66.67,
    # And of the cello in time, which has no message as evidence.
    "session_any@5": 75.0,
    "session_recall@5": 75.0,
    "session_all@5": 75.0,
    "session_any@10": 75.0,
    "session_recall@10": 75.0,
    "session_all@10": 75.0,
}
"""Counted by hand; every question has one place where its words were said."""

SMALL_SET_SENT = {
    # Of the key, the cello too early, and the tide, which is longer.
    "paid@250": 33.33,
    "paid@500": 33.33,
    # Of the key, whose answer alone is known.
    "answer@250": 100.0,
    "answer@500": 100.0,
    "answer@1000": 100.0,
    "answer@2000": 100.0,
}
"""The same for what a model is sent, where it does not depend on what is sent of the tide."""

SENT_FIGURES = SMALL_SET_SENT.keys() | {"paid@1000", "paid@2000", "emptied", "silent"}
COST_FIGURES = {"tokens", "overhead", "foreign_tokens"}


def write_set(path: Path, lines: Iterable[object] = SMALL_SET) -> Path:
    """Write a set, compressed when its name says so."""
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def conversation_of(identity: str, *contents: str) -> EvaluationConversation:
    """Return a conversation whose messages are named after it: `a1`, `a2`, …"""
    return EvaluationConversation(
        id=identity,
        draft=ConversationDraft(title=identity),
        messages=tuple(
            EvaluationMessage(
                id=f"{identity}{number}", draft=MessageDraft(role="user", content=content)
            )
            for number, content in enumerate(contents, start=1)
        ),
    )


def question_of(
    text: str = "?",
    *,
    evidence: Iterable[str] = (),
    conversations: Iterable[str] = (),
    until: str | None = None,
    answer: str = "",
    verbatim: str = "",
) -> Question:
    """Return a question."""
    return Question(
        id=text,
        text=text,
        category="any",
        evidence=frozenset(evidence),
        evidence_conversations=frozenset(conversations),
        until=until,
        answer=answer,
        verbatim=verbatim,
    )


def set_of(*haystacks: Haystack) -> EvaluationSet:
    """Return a set of haystacks."""
    return EvaluationSet(name="some.dev", haystacks=haystacks)
