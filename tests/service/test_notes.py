"""Notes: kept once, listed newest first, and removed to a tombstone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engram import limits
from engram.errors import AccessDeniedError, InvalidRequestError, LimitExceededError, NotFoundError
from engram.model.access import Principal, Quota
from engram.model.ids import MemoryId
from engram.model.memory import MemoryFilters, MemoryQuery, note_draft
from engram.service import Service


async def test_a_note_is_kept_once(service: Service, principal: Principal) -> None:
    draft = note_draft("The harbour opens at six.")

    (first,) = (await service.notes.store_note(principal, draft)).memories
    (again,) = (await service.notes.store_note(principal, draft)).memories

    assert (again.id, first.is_duplicate, again.is_duplicate) == (first.id, False, True)
    assert (await service.notes.list_entries(principal, MemoryQuery(limit=10))).total == 1


@pytest.mark.parametrize("field", [{"project": "harbour"}, {"category": "technical"}])
async def test_the_same_words_elsewhere_are_another_note(
    service: Service, principal: Principal, field: dict[str, str]
) -> None:
    draft = note_draft("The harbour opens at six.")

    kept = await service.notes.store_notes(principal, [draft, replace(draft, **field)])

    assert not any(stored.is_duplicate for stored in kept.memories)


async def test_notes_of_one_call_are_told_apart_too(service: Service, principal: Principal) -> None:
    one, other = note_draft("The harbour opens at six."), note_draft("The harbour closes at nine.")

    kept = await service.notes.store_notes(principal, [one, other, one])

    assert [stored.is_duplicate for stored in kept.memories] == [False, False, True]
    assert kept.memories[0].id == kept.memories[2].id


async def test_a_note_that_was_removed_can_be_kept_anew(
    service: Service, principal: Principal
) -> None:
    draft = note_draft("The harbour opens at six.")
    (first,) = (await service.notes.store_note(principal, draft)).memories

    await service.notes.remove_entry(principal, first.id)
    (second,) = (await service.notes.store_note(principal, draft)).memories

    assert second.id != first.id
    assert not second.is_duplicate


async def test_notes_are_listed_newest_first_with_their_true_total(
    service: Service, principal: Principal
) -> None:
    contents = [f"note number {number}" for number in range(5)]
    for content in contents:
        await service.notes.store_note(principal, note_draft(content))

    page = await service.notes.list_entries(principal, MemoryQuery(limit=2, offset=1))

    assert [memory.content for memory in page.memories] == [contents[3], contents[2]]
    assert (page.total, page.next_offset) == (5, 3)


async def test_filters_of_the_listing_count_before_the_limit(
    service: Service, principal: Principal
) -> None:
    for number in range(6):
        category = "technical" if number == 0 else "general"
        draft = note_draft(f"note number {number}", category=category, source=f"s{number}")
        await service.notes.store_note(principal, draft)

    technical = await service.notes.list_entries(
        principal, MemoryQuery(limit=1, filters=MemoryFilters(categories=("technical",)))
    )
    sourced = await service.notes.list_entries(
        principal, MemoryQuery(limit=1, filters=MemoryFilters(sources=("s1",)))
    )

    assert [memory.content for memory in technical.memories] == ["note number 0"]
    assert (technical.total, sourced.total) == (1, 1)


async def test_removal_can_be_repeated_and_answers_the_same(
    service: Service, principal: Principal
) -> None:
    (stored,) = (
        await service.notes.store_note(principal, note_draft("gone soon, I fear"))
    ).memories

    first = await service.notes.remove_entry(principal, stored.id)
    again = await service.notes.remove_entry(principal, stored.id)

    assert (first.id, again) == (stored.id, first)


async def test_what_never_was_cannot_be_removed(service: Service, principal: Principal) -> None:
    with pytest.raises(NotFoundError):
        await service.notes.remove_entry(principal, MemoryId("mem_absent"))


async def test_a_batch_is_bounded(service: Service, principal: Principal) -> None:
    drafts = [note_draft(f"note number {number}") for number in range(101)]

    with pytest.raises(LimitExceededError) as refused:
        await service.notes.store_notes(principal, drafts)
    with pytest.raises(InvalidRequestError):
        await service.notes.store_notes(principal, [])

    assert (refused.value.limit, refused.value.actual) == (limits.MEMORIES_PER_CALL_MAX, 101)
    assert (await service.notes.list_entries(principal, MemoryQuery(limit=1))).total == 0


@pytest.mark.parametrize("limit", [0, 51])
async def test_a_page_of_notes_is_bounded(
    service: Service, principal: Principal, limit: int
) -> None:
    with pytest.raises(InvalidRequestError):
        await service.notes.list_entries(principal, MemoryQuery(limit=limit))


async def test_scopes_are_asked_for(service: Service, principal: Principal) -> None:
    nobody = replace(principal, scopes=frozenset())
    calls = {
        "write": service.notes.store_note(nobody, note_draft("not to be kept")),
        "read": service.notes.list_entries(nobody, MemoryQuery(limit=1)),
        "delete": service.notes.remove_entry(nobody, MemoryId("mem_x")),
    }

    for scope, call in calls.items():
        with pytest.raises(AccessDeniedError) as refused:
            await call
        assert refused.value.required == scope


async def test_a_quota_that_is_nearly_used_is_spoken_of(
    service: Service, principal: Principal
) -> None:
    bounded = replace(principal, quota=Quota(messages_max=2))

    first = await service.notes.store_note(bounded, note_draft("the first of two"))
    second = await service.notes.store_note(bounded, note_draft("the second of two"))

    assert first.quota_warning is None
    assert second.quota_warning is not None
