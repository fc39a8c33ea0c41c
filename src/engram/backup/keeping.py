"""Which backups are kept: the newest of each hour, day, week or month of a span, and always the newest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from engram.backup.catalog import manifest_path, read_catalog
from engram.backup.destination import OBJECTS, Destination
from engram.errors import InvalidRequestError

_RULE = re.compile(r"(\d{1,4})([hdwmy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 31 * 24, "y": 366 * 24}
"""Of the longest period of each unit, so that none is dropped early."""
_FORMATS = {"h": "%Y-%m-%d %H", "d": "%Y-%m-%d", "w": "%G-%V", "m": "%Y-%m", "y": "%Y"}


class Rule(NamedTuple):
    """Keep the newest backup of every period, for a number of periods."""

    periods: int
    unit: str

    @property
    def span(self) -> timedelta:
        """Return how old a backup gets under this rule."""
        return timedelta(hours=self.periods * _HOURS[self.unit])

    def period(self, instant: datetime) -> str:
        """Return the hour, day, week, month or year of an instant."""
        return instant.astimezone(UTC).strftime(_FORMATS[self.unit])


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse rules such as `24h,7d,4w,12m`.

    Raises:
        InvalidRequestError: the text is not a list of rules.
    """
    found = [_RULE.fullmatch(part.strip()) for part in text.split(",")]
    rules = [Rule(int(each[1]), each[2]) for each in found if each is not None]
    if len(rules) != len(found) or not all(rule.periods for rule in rules):
        message = "must be counts of hours, days, weeks, months or years, such as 24h,7d,4w,12m"
        raise InvalidRequestError(message, field="keep")
    return tuple(rules)


def choose_kept(
    instants: Iterable[datetime], rules: Sequence[Rule], *, now: datetime
) -> set[datetime]:
    """Return the instants of the backups that the rules keep."""
    newest_first = sorted(instants, reverse=True)
    kept = set(newest_first[:1])
    for rule in rules:
        of_period = dict[str, datetime]()
        for instant in newest_first:
            if now - instant <= rule.span:
                of_period.setdefault(rule.period(instant), instant)
        kept.update(of_period.values())
    return kept


def expiry_of(instant: datetime, rules: Sequence[Rule]) -> datetime | None:
    """Return when a backup is removed at the latest, if others follow it; None without rules."""
    return max((instant + rule.span for rule in rules), default=None)


def prune(destination: Destination, rules: Sequence[Rule], *, now: datetime) -> list[str]:
    """Remove backups that no rule keeps, and objects that no backup names; return their ids.

    While a manifest cannot be read no object is removed: it may be one of its own.
    """
    catalog = read_catalog(destination)
    kept = choose_kept((each.instant for each in catalog.manifests), rules, now=now)
    removed = [each.backup_id for each in catalog.manifests if each.instant not in kept]
    for backup_id in removed:
        destination.remove(manifest_path(backup_id))
    catalog.manifests = [each for each in catalog.manifests if each.instant in kept]
    if not catalog.damaged:
        named = catalog.objects()
        for item in list(destination.list_items(OBJECTS)):
            if item.name not in named:
                destination.remove(item.name)
    return removed
