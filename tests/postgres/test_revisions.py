"""What a process knows of an organisation's revision is never more than it was told."""

from __future__ import annotations

from math import inf
from time import monotonic

from engram.storage.postgres.transactions import SeenRevision


def test_seen_revisions_and_moments_never_go_back() -> None:
    seen = SeenRevision()

    seen.note(5, newest_at=20.0)
    seen.note(4, newest_at=10.0)
    seen.note(6)

    assert (seen.revision, seen.newest_at) == (6, 20.0)


def test_answer_to_a_question_from_before_a_doubt_does_not_settle_it() -> None:
    seen = SeenRevision()
    asked_at = monotonic()

    seen.doubt()
    seen.note(5, newest_at=asked_at - 1)
    assert seen.newest_at == -inf

    seen.note(6, newest_at=monotonic() + 1)
    assert seen.newest_at > asked_at
