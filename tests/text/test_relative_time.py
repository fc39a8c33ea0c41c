"""Words of relative time mean a range of time, counted from when the query is asked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engram.clock import from_microseconds, to_microseconds
from engram.limits import QUERY_BYTES_MAX, TIME_CHARACTERS_MAX
from engram.text.relative_time import LANGUAGES, TimeRange, find_range, find_start

WEDNESDAY = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
DAY = timedelta(days=1)

moments = st.datetimes(timezones=st.timezones())
words = sorted(
    {
        word
        for language in LANGUAGES
        for word in (*language.counts, *language.unit_of, *language.days, *language.phrases)
    }
)
spoken = st.lists(
    st.one_of(st.sampled_from([*words, "ago", "last", "since", "7"]), st.text(max_size=4))
).map(" ".join)


def days_of(query: str, asked_at: datetime = WEDNESDAY) -> tuple[str, str] | None:
    """Return the first and the last day that a query means."""
    found = find_range(query, asked_at)
    if found is None:
        return None
    assert asked_at.tzinfo is not None
    first = from_microseconds(found.start).astimezone(asked_at.tzinfo)
    last = from_microseconds(found.end - 1).astimezone(asked_at.tzinfo)
    return first.date().isoformat(), last.date().isoformat()


def around(day: str, *, days: int) -> tuple[str, str]:
    """Return the first and the last day around a day."""
    middle = date.fromisoformat(day)
    return (middle - days * DAY).isoformat(), (middle + days * DAY).isoformat()


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("What did I cook yesterday?", "2026-03-17"),
        ("the day before yesterday", "2026-03-16"),
        ("What was yesterday's plan?", "2026-03-17"),
        ("who called last night", "2026-03-17"),
        ("5 days ago", "2026-03-13"),
        ("five days ago", "2026-03-13"),
        ("A COUPLE\n OF  days ago", "2026-03-16"),
        ("last Saturday", "2026-03-14"),
        ("last Wednesday", "2026-03-11"),
        ("Was haben wir vor fünf Tagen gekocht?", "2026-03-13"),
        ("gestern", "2026-03-17"),
        ("letzten Samstag", "2026-03-14"),
        ("¿qué dije hace cinco días?", "2026-03-13"),
        ("ayer", "2026-03-17"),
        ("el sábado pasado", "2026-03-14"),
        ("il y a cinq jours", "2026-03-13"),
        ("hier soir", "2026-03-17"),
        ("samedi dernier", "2026-03-14"),
        ("五天前我说了什么", "2026-03-13"),
        ("我昨天说了什么", "2026-03-17"),
    ],
)
def test_a_day_is_meant_with_its_neighbours(query: str, day: str) -> None:
    assert days_of(query) == around(day, days=1)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("two weeks ago", ("2026-02-28", "2026-03-08")),
        ("2 weeks ago", ("2026-02-28", "2026-03-08")),
        ("vor zwei Wochen", ("2026-02-28", "2026-03-08")),
        ("hace dos semanas", ("2026-02-28", "2026-03-08")),
        ("il y a deux semaines", ("2026-02-28", "2026-03-08")),
        ("两周前", ("2026-02-28", "2026-03-08")),
        ("a week ago", ("2026-03-07", "2026-03-15")),
        ("two months ago", ("2026-01-04", "2026-01-29")),
        ("a year ago", ("2024-11-17", "2025-07-16")),
        ("half a year ago", ("2025-05-19", "2026-01-15")),
        ("a few weeks ago", ("2026-02-07", "2026-03-08")),
        ("many things happened two hours ago", ("2026-03-18", "2026-03-18")),
    ],
)
def test_longer_units_are_meant_less_exactly(query: str, expected: tuple[str, str]) -> None:
    assert days_of(query) == expected


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("today", "2026-03-17"),
        ("this morning", "2026-03-17"),
        ("heute Morgen", "2026-03-17"),
        ("今天", "2026-03-17"),
        ("the last 3 days", "2026-03-14"),
        ("over the past two weeks", "2026-02-28"),
        ("in den letzten zwei Wochen", "2026-02-28"),
        ("las últimas dos semanas", "2026-02-28"),
        ("les deux dernières semaines", "2026-02-28"),
        ("过去两周", "2026-02-28"),
        ("the past week", "2026-03-07"),
        ("in the last month", "2026-02-03"),
        ("last week", "2026-03-09"),
        ("letzte Woche", "2026-03-09"),
        ("la semana pasada", "2026-03-09"),
        ("la semaine dernière", "2026-03-09"),
        ("上周六", "2026-03-09"),
        ("last weekend", "2026-03-13"),
        ("last month", "2026-02-01"),
        ("上个月", "2026-02-01"),
        ("last year", "2025-01-01"),
        ("this week", "2026-03-16"),
        ("this month", "2026-03-01"),
        ("this year", "2026-01-01"),
        ("since last Saturday", "2026-03-13"),
        ("since I began two weeks ago", "2026-02-28"),
        ("seit gestern", "2026-03-16"),
    ],
)
def test_what_lasts_until_now_ends_with_the_day_of_asking(query: str, first: str) -> None:
    assert days_of(query) == (first, "2026-03-18")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "How many weeks ago did I buy it?",
        "What did I do in May 2023?",
        "the last day of school",
        "the last week of May",
        "What did you recommend last time?",
        "my last 3 trips",
        "next Saturday",
        "on Monday",
        "vacationing days agog",
        "Was ist hier zu tun?",
        "2023年前",
    ],
)
def test_other_words_mean_no_time(query: str) -> None:
    assert find_range(query, WEDNESDAY) is None


def test_the_first_words_count() -> None:
    assert find_range("yesterday, or was it two weeks ago?", WEDNESDAY) == find_range(
        "yesterday", WEDNESDAY
    )


def test_calendar_units_go_back_over_the_turn_of_the_year() -> None:
    new_year = datetime(2025, 1, 1, tzinfo=UTC)

    assert days_of("last month", new_year) == ("2024-12-01", "2025-01-01")
    assert days_of("last year", new_year) == ("2024-01-01", "2025-01-01")


def test_days_are_those_of_the_time_zone_in_which_it_is_asked() -> None:
    tokyo = timezone(timedelta(hours=9))

    found = find_range("yesterday", datetime(2026, 3, 18, 1, tzinfo=tokyo))

    assert found is not None
    assert from_microseconds(found.start) == datetime(2026, 3, 15, 15, tzinfo=UTC)


@given(spoken, moments)
@example("999 years ago", datetime.min.replace(tzinfo=UTC))
@example("last year", datetime.min.replace(tzinfo=UTC))
@example("today", datetime.max.replace(tzinfo=UTC))
@example("last month", datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
def test_any_text_at_any_moment_means_a_time_in_the_past_or_none(
    query: str, asked_at: datetime
) -> None:
    found = find_range(query, asked_at)

    if found is not None:
        assert isinstance(found, TimeRange)
        assert found.start < found.end
        assert found.start < to_microseconds(asked_at)
        assert found.end <= to_microseconds(asked_at) + DAY // timedelta(microseconds=1)


@given(spoken, st.sampled_from([" ", "\n", "\t  "]))
def test_case_and_white_space_change_nothing(query: str, space: str) -> None:
    changed = query.upper().replace(" ", space)
    if changed.lower().split() == query.lower().split():
        assert find_range(changed, WEDNESDAY) == find_range(query, WEDNESDAY)


@given(st.integers(1, 999), st.sampled_from(["day", "week", "month", "year"]))
def test_more_units_back_is_longer_ago(number: int, unit: str) -> None:
    nearer = find_range(f"{number - 1} {unit}s ago", WEDNESDAY)
    further = find_range(f"{number} {unit}s ago", WEDNESDAY)

    assert nearer is not None
    assert further is not None
    assert further.start < nearer.start
    assert further.end < nearer.end or number == 1


@pytest.mark.parametrize("word", ["a ", "last ", "two weeks ag ", "一", "since ", "9 ", ". "])
def test_of_the_longest_query_the_two_ends_are_read(word: str) -> None:
    filler = (word * QUERY_BYTES_MAX).encode()[: QUERY_BYTES_MAX - 20].decode(errors="ignore")
    middle = len(filler) // 2

    assert find_range(f"{filler} yesterday", WEDNESDAY) is not None
    assert find_range(f"yesterday {filler}", WEDNESDAY) is not None
    assert find_range(f"{filler[:middle]} yesterday {filler[middle:]}", WEDNESDAY) is None
    assert find_range(f"{filler[:TIME_CHARACTERS_MAX]} yesterday", WEDNESDAY) is not None


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("today", "2026-03-18T00:00"),
        ("yesterday", "2026-03-17T00:00"),
        ("Gestern", "2026-03-17T00:00"),
        ("3 days ago", "2026-03-15T00:00"),
        ("two hours ago", "2026-03-18T13:30"),
        ("a week ago", "2026-03-11T00:00"),
        ("one month ago", "2026-02-15T00:00"),
        ("last monday", "2026-03-16T00:00"),
        ("last wednesday", "2026-03-11T00:00"),
        ("last weekend", "2026-03-14T00:00"),
        ("last week", "2026-03-09T00:00"),
        ("this month", "2026-03-01T00:00"),
        ("last year", "2025-01-01T00:00"),
    ],
)
def test_words_alone_begin_at_an_exact_time(text: str, start: str) -> None:
    found = find_start(text, WEDNESDAY)

    assert found is not None
    assert from_microseconds(found).isoformat(timespec="minutes") == f"{start}+00:00"


@pytest.mark.parametrize("text", ["", "soon", "what I said yesterday", "2026-03-01", "7d"])
def test_other_texts_begin_at_no_time(text: str) -> None:
    assert find_start(text, WEDNESDAY) is None
