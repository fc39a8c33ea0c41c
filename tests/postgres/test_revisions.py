"""What a process knows of an organisation's revision is never more than it was told."""

from __future__ import annotations

from engram.storage.postgres.transactions import SeenRevision


def test_seen_revisions_and_moments_never_go_back() -> None:
    seen = SeenRevision()

    seen.note(5, newest_at=20.0)
    seen.note(4, newest_at=10.0)
    seen.note(6)

    assert (seen.revision, seen.newest_at) == (6, 20.0)
