"""Hold back the answer that a program may still be writing into its database.

A message is stored once under its id, so the half of an answer would stay. Programs that say when a part is whole
need none of this; of the others, the answer to the last prompt waits until its session has been left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from engram import limits
from engram.sources.values import STILL_WRITTEN, Item, SourceMessage, Tally


def settled(items: Iterable[Item], *, now: datetime, tally: Tally) -> Iterator[Item]:
    """Yield all but the answers to the last prompts of sessions that were written to just now."""
    since = now - timedelta(seconds=limits.SOURCE_SETTLE_S)
    held = dict[str, list[SourceMessage]]()
    for item in items:
        if not isinstance(item, SourceMessage) or not _is_fresh(item, since):
            yield item
        elif item.role == "user":
            # Whoever goes on has had the answer.
            yield from held.pop(item.session.id, ())
            yield item
        else:
            held.setdefault(item.session.id, []).append(item)
    for _ in (message for answer in held.values() for message in answer):
        tally.skip(STILL_WRITTEN)


def _is_fresh(message: SourceMessage, since: datetime) -> bool:
    moments = (message.session.written_at, message.occurred_at)
    return any(moment is not None and moment > since for moment in moments)
