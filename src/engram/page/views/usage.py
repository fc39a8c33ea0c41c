"""Usage: what is stored against the quota, what was done by day, how fast, and what still waits."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from math import ceil

from engram.api.account import StatusView, UsageView
from engram.api.deliveries import ActivityView
from engram.model.status import SearchTimes
from engram.model.value import Score, Value
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit
from engram.service.access.usage import WARNING_SHARE

DAYS = 30


class Bound(Value):
    """A resource and its bound."""

    name: str
    used: int
    most: int | None
    share: Score
    """Of the bound that is used, at most 1; 0 without one."""
    warn_at: int | None
    """How much is used when writes begin to be answered with a warning."""


class Day(Value):
    """What was done on one day; nothing on days that nobody has counted."""

    day: str
    requests: int = 0
    searches: int = 0
    messages: int = 0
    """Appended and captured."""
    tokens: int = 0
    """Given to agents, as far as the log of deliveries goes."""
    embedded_texts: int = 0
    bytes: int | None = None
    """Stored when the day was last counted; None if it was not."""


class UsagePage(Value):
    """Usage of an organisation."""

    messages: int
    content_bytes: int
    pending: int
    """Texts that wait for deep vectors."""
    pending_since: datetime | None
    """When the oldest of them was stored."""
    embedder: str | None
    bounds: tuple[Bound, ...]
    times: SearchTimes | None
    days: tuple[Day, ...]
    """The newest first, without gaps."""


async def load(visit: Visit) -> UsagePage:
    """Return the usage of the last days."""
    used: UsageView = await visit.call("usage", days=DAYS)
    status: StatusView = await visit.call("status")
    activity: ActivityView = await visit.call("activity", days=DAYS)
    return UsagePage(
        messages=used.messages,
        content_bytes=used.content_bytes,
        pending=status.pending,
        pending_since=status.pending_since,
        embedder=status.embedder,
        bounds=(
            _bound("messages", used.messages, used.messages_max),
            _bound("bytes", used.stored_bytes, used.bytes_max),
        ),
        times=activity.searches,
        days=_days(visit.now.date(), used, activity),
    )


def _bound(name: str, used: int, most: int | None) -> Bound:
    share = 0.0 if most is None else min(1.0, used / most) if most else 1.0
    warn_at = None if most is None else ceil(WARNING_SHARE * most)
    return Bound(name=name, used=used, most=most, share=share, warn_at=warn_at)


def _days(today: date, used: UsageView, activity: ActivityView) -> tuple[Day, ...]:
    counted = {each.day: each for each in used.days}
    given = {each.day: each.tokens for each in activity.days}
    days = list[Day]()
    for back in range(DAYS):
        day = (today - timedelta(days=back)).isoformat()
        tokens = given.get(day, 0)
        if (found := counted.get(day)) is None:
            days.append(Day(day=day, tokens=tokens))
            continue
        days.append(
            Day(
                day=day,
                requests=found.requests,
                searches=found.searches,
                messages=found.messages,
                tokens=tokens,
                embedded_texts=found.embedded_texts,
                bytes=found.bytes,
            )
        )
    return tuple(days)


VIEWS = (
    View(
        path="/usage",
        template="usage.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Usage", place="more"),
    ),
)
ACTS: tuple[Act, ...] = ()
