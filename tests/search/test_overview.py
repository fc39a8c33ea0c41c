"""Overviews: in what order their entries come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.model.ids import ConversationKey
from engram.model.recall import OVERVIEW_REASONS, OverviewReason
from engram.model.row_keys import message_key
from engram.search.overview import choose_overview
from engram.storage.search.overview import OverviewCandidate


def candidate(
    reason: OverviewReason,
    number: int,
    *,
    importance: int = 2,
    at: int = 0,
    project: str = "default",
) -> OverviewCandidate:
    return OverviewCandidate(
        reason, ConversationKey(number), message_key(number, 1), importance, at, project
    )


def numbers_of(
    candidates: list[OverviewCandidate], limit: int = 10, *asked: OverviewReason
) -> list[int]:
    chosen = choose_overview(candidates, limit=limit, asked=frozenset(asked))
    return [each.conversation for each in chosen.candidates]


def test_groups_take_turns_behind_what_is_critical() -> None:
    found = [
        candidate("latest", 1),
        candidate("latest", 2, at=9),
        candidate("preference", 3),
        candidate("decision", 4),
        candidate("decision", 5, at=5),
        candidate("open", 6),
        candidate("important", 7, importance=1),
        candidate("critical", 8, importance=0),
    ]

    assert numbers_of(found) == [8, 7, 6, 5, 3, 2, 4, 1]


def test_groups_that_are_asked_for_come_before_the_others() -> None:
    found = [candidate("critical", 1), candidate("open", 2), candidate("decision", 3)]
    found += [candidate("decision", 4, at=1), candidate("latest", 5)]

    assert numbers_of(found, 10, "decision", "latest") == [1, 4, 5, 3, 2]


def test_importance_decides_before_time_within_a_group() -> None:
    found = [
        candidate("decision", 1, importance=3, at=9),
        candidate("decision", 2, importance=2, at=1),
        candidate("decision", 3, importance=2, at=2),
    ]

    assert numbers_of(found) == [3, 2, 1]


def test_many_critical_memories_leave_room_for_others() -> None:
    critical = [candidate("critical", number, at=number) for number in range(1, 9)]

    assert numbers_of([*critical, candidate("open", 20)], 4) == [8, 7, 20, 6]


def test_the_newest_of_each_project_comes_before_more_of_one() -> None:
    found = [candidate("latest", number, at=number, project="busy") for number in range(1, 9)]
    found.append(candidate("latest", 20, at=1, project="quiet"))

    chosen = choose_overview(found, limit=3)

    assert [each.conversation for each in chosen.candidates] == [8, 20, 7]
    assert [each.project for each in chosen.projects] == ["busy", "quiet"]


def test_the_default_project_alone_is_not_worth_naming() -> None:
    assert choose_overview([candidate("latest", 1)], limit=3).projects == ()


@given(
    st.lists(
        st.builds(
            candidate,
            st.sampled_from(OVERVIEW_REASONS),
            st.integers(1, 20),
            importance=st.integers(0, 4),
            at=st.integers(0, 5),
            project=st.sampled_from(("default", "a", "b")),
        )
    ),
    st.integers(1, 10),
    st.sets(st.sampled_from(OVERVIEW_REASONS)),
)
def test_each_comes_once_within_the_limit(
    found: list[OverviewCandidate], limit: int, asked: set[OverviewReason]
) -> None:
    kept = numbers_of(found, limit, *asked)

    assert len(kept) == min(limit, len({each.conversation for each in found}))
    assert len({*kept}) == len(kept)
