"""Rules keep the newest backup of each period, and always the newest of all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.backup.keeping import choose_kept, expiry_of, parse_rules
from engram.errors import InvalidRequestError

NOW = datetime(2026, 11, 17, 12, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGES = st.sets(st.integers(0, 24 * 500), max_size=40)
RULES = st.sampled_from(["1h", "24h", "7d", "4w", "12m", "24h,7d", "24h,7d,4w,12m", "3y"])


def test_hourly_backups_thin_out_with_age() -> None:
    instants = [NOW - age * HOUR for age in range(24 * 60)]

    kept = choose_kept(instants, parse_rules("24h,7d,4w,12m"), now=NOW)

    ages = sorted((NOW - each) // HOUR for each in kept)
    assert ages[:25] == list(range(25))
    assert [age for age in ages if 24 < age < 24 * 7] == [37, 61, 85, 109, 133, 157]
    assert len(ages) == len(set(ages)) < 45


@given(AGES, RULES)
def test_the_newest_is_always_kept_and_pruning_again_removes_nothing(
    ages: set[int], text: str
) -> None:
    instants = {NOW - age * HOUR for age in ages}
    rules = parse_rules(text)

    kept = choose_kept(instants, rules, now=NOW)

    assert kept <= instants
    assert not instants or max(instants) in kept
    assert choose_kept(kept, rules, now=NOW) == kept


@given(AGES, RULES)
def test_nothing_but_the_newest_outlives_its_expiry(ages: set[int], text: str) -> None:
    instants = {NOW - age * HOUR for age in ages}
    rules = parse_rules(text)

    for instant in choose_kept(instants, rules, now=NOW) - {max(instants, default=NOW)}:
        expiry = expiry_of(instant, rules)
        assert expiry is not None
        assert expiry >= NOW


@pytest.mark.parametrize("text", ["", "24", "h", "24h,", "0d", "7x", "-1d", "24h 7d"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_rules(text)
