"""Candidates for the tests of the pure steps."""

from __future__ import annotations

from hypothesis import strategies as st

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidate


def candidate(
    conversation: int,
    sequence: int,
    *,
    message: float = 0.0,
    window: float = 0.0,
    characters: int = 40,
) -> Candidate:
    """Return a candidate whose key follows from its place."""
    return Candidate(
        key=MessageKey(conversation * 1000 + sequence),
        conversation=ConversationKey(conversation),
        sequence=sequence,
        characters=characters,
        share_message=message,
        share_window=window,
    )


shares = st.floats(0, 1)

candidates = st.lists(
    st.builds(
        candidate,
        st.integers(1, 6),
        st.integers(1, 30),
        message=shares,
        window=shares,
        characters=st.one_of(st.integers(0, 400), st.integers(0, 100_000)),
    ),
    max_size=60,
    unique_by=lambda item: item.key,
)
