"""Notes: kept once, listed newest first, and removed to a tombstone."""

from __future__ import annotations

import pytest

from engram import limits
from engram.api.notes import NoteQuery
from engram.errors import AccessDeniedError, InvalidRequestError, LimitExceededError, NotFoundError
from engram.model.access import Principal, Quota
from engram.model.ids import MemoryId
from engram.model.memory import MemoryFilters, MemoryQuery, NoteDraft
from engram.model.value import replace
from engram.service import Service


async def test_a_note_is_kept_once(service: Service, principal: Principal) -> None:
    draft = NoteDraft(content="The harbour opens at six.")

    (first,) = (await service.memories.store_note(principal, draft)).memories
    (again,) = (await service.memories.store_note(principal, draft)).memories

    assert (again.id, first.is_duplicate, again.is_duplicate) == (first.id, False, True)
    assert (await service.memories.list(principal, MemoryQuery(limit=10))).total == 1


async def test_the_same_words_in_another_project_are_another_note(
    service: Service, principal: Principal
) -> None:
    draft = NoteDraft(content="The harbour opens at six.")

    kept = await service.memories.store_notes(principal, [draft, replace(draft, project="harbour")])

    assert not any(stored.is_duplicate for stored in kept.memories)


async def test_the_same_words_in_another_category_are_a_duplicate(
    service: Service, principal: Principal
) -> None:
    draft = NoteDraft(content="The harbour opens at six.")

    drafts = [draft, replace(draft, category="technical")]
    first, again = (await service.memories.store_notes(principal, drafts)).memories

    assert (again.id, again.is_duplicate) == (first.id, True)


async def test_notes_of_one_call_are_told_apart_too(service: Service, principal: Principal) -> None:
    one, other = (
        NoteDraft(content="The harbour opens at six."),
        NoteDraft(content="The harbour closes at nine."),
    )

    kept = await service.memories.store_notes(principal, [one, other, one])

    assert [stored.is_duplicate for stored in kept.memories] == [False, False, True]
    assert kept.memories[0].id == kept.memories[2].id


async def test_a_note_that_was_removed_can_be_kept_anew(
    service: Service, principal: Principal
) -> None:
    draft = NoteDraft(content="The harbour opens at six.")
    (first,) = (await service.memories.store_note(principal, draft)).memories

    await service.memories.purge(principal, first.id)
    (second,) = (await service.memories.store_note(principal, draft)).memories

    assert second.id != first.id
    assert not second.is_duplicate


async def test_notes_are_listed_newest_first_with_their_true_total(
    service: Service, principal: Principal
) -> None:
    contents = [f"note number {number}" for number in range(5)]
    for content in contents:
        await service.memories.store_note(principal, NoteDraft(content=content))

    page = await service.memories.list(principal, MemoryQuery(limit=2, offset=1))

    assert [memory.content for memory in page.memories] == [contents[3], contents[2]]
    assert (page.total, page.next_offset) == (5, 3)


async def test_filters_of_the_listing_count_before_the_limit(
    service: Service, principal: Principal
) -> None:
    for number in range(6):
        category = "technical" if number == 0 else "general"
        draft = NoteDraft(content=f"note number {number}", category=category, source=f"s{number}")
        await service.memories.store_note(principal, draft)

    technical = await service.memories.list(
        principal, MemoryQuery(limit=1, filters=MemoryFilters(categories=("technical",)))
    )
    sourced = await service.memories.list(
        principal, MemoryQuery(limit=1, filters=MemoryFilters(sources=("s1",)))
    )

    assert [memory.content for memory in technical.memories] == ["note number 0"]
    assert (technical.total, sourced.total) == (1, 1)


async def test_removal_can_be_repeated_and_answers_the_same(
    service: Service, principal: Principal
) -> None:
    (stored,) = (
        await service.memories.store_note(principal, NoteDraft(content="gone soon, I fear"))
    ).memories

    first = await service.memories.purge(principal, stored.id)
    again = await service.memories.purge(principal, stored.id)

    assert (first.id, again) == (stored.id, first)


async def test_what_never_was_cannot_be_removed(service: Service, principal: Principal) -> None:
    with pytest.raises(NotFoundError):
        await service.memories.purge(principal, MemoryId("mem_absent"))


async def test_a_batch_is_bounded(service: Service, principal: Principal) -> None:
    drafts = [NoteDraft(content=f"note number {number}") for number in range(101)]

    with pytest.raises(LimitExceededError) as refused:
        await service.memories.store_notes(principal, drafts)
    with pytest.raises(InvalidRequestError):
        await service.memories.store_notes(principal, [])

    assert (refused.value.limit, refused.value.actual) == (limits.MEMORIES_PER_CALL_MAX, 101)
    assert (await service.memories.list(principal, MemoryQuery(limit=1))).total == 0


@pytest.mark.parametrize("limit", [0, 51])
def test_a_page_of_notes_is_bounded(limit: int) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        NoteQuery(limit=limit)

    assert refused.value.field == "limit"


async def test_scopes_are_asked_for(service: Service, principal: Principal) -> None:
    nobody = replace(principal, scopes=frozenset())
    calls = {
        "write": service.memories.store_note(nobody, NoteDraft(content="not to be kept")),
        "read": service.memories.list(nobody, MemoryQuery(limit=1)),
        "delete": service.memories.purge(nobody, MemoryId("mem_x")),
    }

    for scope, call in calls.items():
        with pytest.raises(AccessDeniedError) as refused:
            await call
        assert refused.value.required == scope


async def test_a_quota_that_is_nearly_used_is_spoken_of(
    service: Service, principal: Principal
) -> None:
    bounded = replace(principal, quota=Quota(messages_max=2))

    first = await service.memories.store_note(bounded, NoteDraft(content="the first of two"))
    second = await service.memories.store_note(bounded, NoteDraft(content="the second of two"))

    assert first.quota_warning is None
    assert second.quota_warning is not None
