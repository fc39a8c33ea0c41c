"""Searches that speak of a time raise what was said then."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.clock import to_microseconds
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.search import SearchAnswer, SearchRequest
from engram.model.value import replace
from engram.model.vectors import WORDS_ALONE
from engram.search.profiles import PROFILES
from engram.search.score import TIME_BONUS, score
from engram.search.time_asked import mark_in_time
from engram.storage.organization import OrganizationStore
from engram.text.relative_time import TimeRange
from tests.fakes import SOME_DAY
from tests.search.asking import contents_of, search
from tests.search.candidates import CALIBRATIONS, NOW, Row, rows, table

DAY = timedelta(days=1)
SAID = {days: f"We sailed to island {days}." for days in (1, 7, 14, 30, 60, 90)}
"""What was said, by how many days before `SOME_DAY`."""


def a_range(start: int, end: int) -> TimeRange:
    return TimeRange(NOW + min(start, end), NOW + max(start, end))


ranges = st.builds(a_range, st.integers(-(10**14), 10**10), st.integers(-(10**14), 10**10))


@pytest.fixture
async def logbook(store: OrganizationStore) -> OrganizationStore:
    """Return a store of one conversation for each day of `SAID`."""
    for days, content in SAID.items():
        conversation_id = await store.create_conversation(ConversationDraft(), actor="test")
        said = MessageDraft(role="user", content=content, occurred_at=SOME_DAY - days * DAY)
        request = AppendRequest(conversation_id=conversation_id, messages=(said,))
        await store.append_messages(request, actor="test", quota=Quota(), indexing=WORDS_ALONE)
    return store


def bonuses(answer: SearchAnswer) -> dict[str, float]:
    """Return what each message gained by its time."""
    found = [one for result in answer.results for one in result.messages]
    return {one.message.content: one.breakdown.time_bonus for one in found if one.breakdown}


@pytest.mark.parametrize(
    ("time", "days"),
    [("yesterday", 1), ("a week ago", 7), ("two weeks ago", 14), ("two months ago", 60)],
)
async def test_what_was_said_in_that_time_comes_first(
    logbook: OrganizationStore, time: str, days: int
) -> None:
    request = SearchRequest(query=f"Where did we sail {time}?", explain=True, min_score=0)

    answer = await search(replace(request, asked_at=SOME_DAY), logbook)

    assert contents_of(answer)[0] == SAID[days]
    assert [content for content, bonus in bonuses(answer).items() if bonus] == [SAID[days]]


async def test_relative_time_is_counted_from_when_it_was_asked(
    logbook: OrganizationStore,
) -> None:
    request = SearchRequest(
        query="Where did we sail yesterday?", asked_at=SOME_DAY - 59 * DAY, min_score=0
    )

    answer = await search(request, logbook)

    assert contents_of(answer)[0] == SAID[60]


async def test_without_asked_at_it_is_counted_from_now(logbook: OrganizationStore) -> None:
    request = SearchRequest(query="Where did we sail yesterday?", min_score=0)

    answer = await search(request, logbook)

    assert contents_of(answer)[0] == SAID[1]


@pytest.mark.parametrize("asked_at", [None, SOME_DAY, SOME_DAY - 59 * DAY])
async def test_a_query_without_a_time_is_answered_alike_whenever_it_is_asked(
    logbook: OrganizationStore, asked_at: datetime | None
) -> None:
    query = "Where did we sail?"

    answer = await search(
        SearchRequest(query=query, asked_at=asked_at, limit=10, explain=True), logbook
    )

    assert answer == await search(SearchRequest(query=query, limit=10, explain=True), logbook)
    assert set(bonuses(answer).values()) == {0.0}


async def test_a_time_that_holds_half_of_what_was_found_raises_nothing(
    logbook: OrganizationStore,
) -> None:
    request = SearchRequest(
        query="Where did we sail in the past two weeks?",
        asked_at=SOME_DAY,
        explain=True,
        min_score=0,
    )

    assert bonuses(await search(request, logbook)) == dict.fromkeys(SAID.values(), 0.0)


async def test_a_time_alone_finds_nothing(logbook: OrganizationStore) -> None:
    answer = await search(SearchRequest(query="yesterday", asked_at=SOME_DAY), logbook)

    assert contents_of(answer) == []


@given(rows, ranges)
def test_at_most_less_than_half_are_marked_and_all_of_them_in_the_range(
    found: list[Row], said_in: TimeRange
) -> None:
    candidates = table(found)

    marked = mark_in_time(candidates, said_in).are_in_time

    inside = (candidates.said_at >= said_in.start) & (candidates.said_at < said_in.end)
    if 2 * inside.sum() < len(inside):
        assert marked is not None
        assert marked.tolist() == inside.tolist()
    else:
        assert marked is None


@given(rows, ranges)
def test_the_bonus_is_bounded_by_what_else_speaks_for_a_candidate(
    found: list[Row], said_in: TimeRange
) -> None:
    marked = mark_in_time(table(found), said_in)
    without, with_time = (
        score(candidates, profile=PROFILES["default"], calibrations=CALIBRATIONS, now=NOW)
        for candidates in (table(found), marked)
    )

    gained = with_time.fused - without.fused

    assert gained == pytest.approx(with_time.time_bonus)
    assert (with_time.time_bonus <= np.minimum(TIME_BONUS, without.fused)).all()
    if marked.are_in_time is None:
        assert with_time.order.tolist() == without.order.tolist()
    else:
        assert not with_time.time_bonus[~marked.are_in_time].any()


def test_the_bonus_is_shown_as_part_of_the_fused_value() -> None:
    then = Row(1, 1, message=0.3, window=0.3, said_at=NOW)
    others = [Row(number, 1, message=0.3, window=0.3, said_at=0) for number in (2, 3)]
    said_in = TimeRange(to_microseconds(SOME_DAY - DAY), to_microseconds(SOME_DAY + DAY))
    scored = score(
        mark_in_time(table([then, *others]), said_in),
        profile=PROFILES["words"],
        calibrations=CALIBRATIONS,
        now=NOW,
    )

    first, second, _ = map(scored.explain, scored.rank())

    assert first.time_bonus == TIME_BONUS
    assert first.fused == pytest.approx(second.fused + TIME_BONUS)
    assert second.time_bonus == 0
