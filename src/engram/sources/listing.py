"""What lies on this machine for import, and how much of it was imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from engram.clock import format_time
from engram.sources.importing import find_files
from engram.sources.ledger import Ledger, state_of
from engram.sources.places import Places
from engram.sources.registry import SOURCES
from engram.sources.values import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files of a source."""

    name: str
    title: str
    files: int
    new: int
    """Files that were written since they were imported, or never were."""
    size_bytes: int
    oldest: datetime | None
    imported_at: datetime | None
    days_left: int | None
    """Until the program deletes the oldest file; None if it does not."""
    drift: Mapping[str, int]

    def as_json(self) -> dict[str, Any]:
        times = {
            name: None if moment is None else format_time(moment)
            for name, moment in (("oldest", self.oldest), ("imported_at", self.imported_at))
        }
        return {**asdict(self), **times, "drift": dict(self.drift)}


def look_around(places: Places, ledger: Ledger | None, *, now: datetime) -> Sequence[Found]:
    """Return what there is of every source, those without files included.

    Without a ledger nothing of it counts as imported.
    """
    return [_look(source, places, ledger, now=now) for source in SOURCES.values()]


def _look(source: Source, places: Places, ledger: Ledger | None, *, now: datetime) -> Found:
    paths = find_files(source, source.roots(places))
    known = {} if ledger is None else ledger.load(source)
    stats = [path.stat() for path in paths]
    oldest = min((stat.st_mtime for stat in stats), default=None)
    written = None if oldest is None else datetime.fromtimestamp(oldest, UTC)
    new = [path for path in paths if path not in known or known[path].state != state_of(path)]
    drift = sum((Counter(entry.drift) for entry in known.values()), Counter[str]())
    return Found(
        name=source.name,
        title=source.title,
        files=len(paths),
        new=len(new),
        size_bytes=sum(stat.st_size for stat in stats),
        oldest=written,
        imported_at=max((entry.imported_at for entry in known.values()), default=None),
        days_left=_days_left(source, places, written, now=now),
        drift=drift,
    )


def _days_left(
    source: Source, places: Places, oldest: datetime | None, *, now: datetime
) -> int | None:
    days = None if source.keeps_days is None else source.keeps_days(places)
    if days is None or oldest is None:
        return None
    return max(0, (oldest + timedelta(days=days) - now).days)
