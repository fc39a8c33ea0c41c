"""A context without a question: what a new session should know, within its budget."""

from __future__ import annotations

from datetime import timedelta
from xml.etree import ElementTree

import pytest

from engram import limits
from engram.model.access import Principal
from engram.model.recall import Context
from engram.search.context_block import NOTHING_FOUND, NOTHING_STORED
from engram.service import Service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.contexts import House


@pytest.fixture
def house(service: Service, principal: Principal) -> House:
    return House(service, principal)


def texts_of(context: Context) -> list[str]:
    return [entry.content for entry in context.entries]


async def test_an_empty_store_answers_with_one_line(house: House) -> None:
    context = await house.fetch()

    assert context.context == NOTHING_STORED
    assert (context.entries, context.omitted, context.degraded) == ((), 0, ())
    assert context.used_tokens < 15


async def test_a_new_session_learns_of_every_group_with_its_reason(house: House) -> None:
    await house.keep("The meeting room is on the second floor")
    await house.keep("Answers should be short", category="user_pref")
    await house.keep("We take Postgres", memory_type="decision")
    await house.keep("Rotate the key", tags=("todo",))
    await house.keep("Never push to main", importance=0)

    context = await house.fetch()

    assert [(entry.reason, entry.content) for entry in context.entries] == [
        ("critical", "Never push to main"),
        ("open", "Rotate the key"),
        ("decision", "We take Postgres"),
        ("preference", "Answers should be short"),
        ("latest", "The meeting room is on the second floor"),
    ]
    items = ElementTree.fromstring(context.context)  # noqa: S314 it is our own
    assert [item.attrib["reason"] for item in items] == [entry.reason for entry in context.entries]
    assert not any("score" in item.attrib for item in items)


async def test_current_projects_are_named_and_their_last_entries_shown(
    house: House, clock: FakeClock
) -> None:
    await house.say("The parser is fixed", project='tools "2"')
    clock.advance(timedelta(days=3))
    await house.keep("The site moves to a new host", project="site")

    context = await house.fetch(kinds=("note", "conversation"))

    assert [(each.project, each.active_at.day) for each in context.projects] == [
        ("site", 11),
        ('tools "2"', 8),
    ]
    assert '<project name="site" active="2026-05-11"/>' in context.context
    assert '<project name="tools &quot;2&quot;" active="2026-05-08"/>' in context.context
    assert texts_of(context) == ["The site moves to a new host", "The parser is fixed"]
    assert [entry.project for entry in context.entries] == ["site", 'tools "2"']


async def test_a_project_and_a_category_can_be_asked_for(house: House) -> None:
    await house.keep("Answers should be short", category="user_pref", project="site")
    await house.keep("The site moves", category="project", project="site")
    await house.keep("Something else", category="user_pref")

    of_site = await house.fetch(project="site")
    preferences = await house.fetch(category_filter="user_pref")
    searched = await house.fetch("short answers", project="default")

    assert {*texts_of(of_site)} == {"Answers should be short", "The site moves"}
    assert of_site.projects == ()
    assert {*texts_of(preferences)} == {"Answers should be short", "Something else"}
    assert texts_of(searched) == []


@promise("bounded")
async def test_an_overview_fits_its_budget_and_counts_what_it_omits(house: House) -> None:
    for number in range(10):
        await house.keep(f"Fact {number}: " + "words " * 90, project=f"project {number}")

    context = await house.fetch(top_k=10, token_budget=600)

    assert context.used_tokens <= 600
    assert 0 < len(context.entries) < 10
    assert context.omitted == 10 - len(context.entries)


async def test_of_a_long_text_an_overview_shows_the_beginning(house: House) -> None:
    await house.keep("A very long report. " * 200)
    await house.keep("A fact")

    context = await house.fetch()

    long = context.entries[1]
    assert len(long.content) == limits.OVERVIEW_ENTRY_CHARACTERS
    assert long.truncated
    assert f'shown="{limits.OVERVIEW_ENTRY_CHARACTERS} of 4000 characters"' in context.context


async def test_a_general_question_gets_an_overview_with_what_its_words_find(house: House) -> None:
    await house.keep("The status of the harbour is unknown")
    for number in range(9):
        await house.keep(f"Recorded fact {number}")
    await house.keep("Use Postgres", memory_type="decision")
    await house.keep("Never push to main", importance=0)

    context = await house.fetch("project status and recent decisions")

    assert texts_of(context)[:3] == [
        "Never push to main",
        "The status of the harbour is unknown",
        "Use Postgres",
    ]
    assert len(context.entries) == 5


async def test_a_minimum_score_asks_for_matches_alone(house: House) -> None:
    await house.keep("Use Postgres", memory_type="decision")

    context = await house.fetch("project status", min_score=0.1)

    assert context.context == NOTHING_FOUND


@promise("reproducible")
async def test_an_overview_is_the_same_every_time_and_writes_nothing(
    house: House, service: Service
) -> None:
    for number in range(20):
        await house.keep(f"Fact {number}", importance=number % 5, project=f"p{number % 3}")
    before = await service.account.status(house.principal)

    contexts = [await house.fetch(top_k=10, token_budget=1500 + turn) for turn in range(3)]

    assert {each.context for each in contexts} == {contexts[0].context}
    assert await service.account.status(house.principal) == before


async def test_near_misses_are_named_without_their_text(house: House) -> None:
    wanted = await house.keep("The harbour crane is green and old", category="technical")
    await house.keep("Anything else that mentions nothing of it")

    context = await house.fetch("harbour " + "unheard of words that nobody wrote " * 9)

    (miss,) = context.nearest
    assert (miss.id, miss.category) == (wanted, "technical")
    assert context.below_cut == 1
    assert context.context == (
        f"{NOTHING_FOUND} 1 below the cut (min_score=0 shows them), "
        f"nearest: {wanted} technical 2026-05-08"
    )
