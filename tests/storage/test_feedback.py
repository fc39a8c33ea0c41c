"""The contract of feedback: what is said of memories is kept, counted and never doubled."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import NotFoundError
from engram.model.access import OrganizationDraft
from engram.model.ids import MemoryId
from engram.model.memory import FailureClass, Feedback
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.promises import promise
from tests.storage.drafts import ACTOR, opened
from tests.storage.memory_drafts import NOWHERE, remember

pytestmark = promise("feedback")


async def say(
    organization: OrganizationStore,
    *memory_ids: MemoryId,
    helpful: bool = True,
    event_id: str | None = None,
    failure_class: FailureClass | None = None,
) -> int:
    feedback = Feedback(
        memory_ids=memory_ids, helpful=helpful, event_id=event_id, failure_class=failure_class
    )
    return await organization.memories.record_feedback(feedback, actor=ACTOR)


def said(folder: Path, organization: OrganizationStore) -> list[tuple[str, int, bool]]:
    """Return the memory, number and verdict of all that was said."""
    with opened(folder, organization) as connection:
        rows = connection.execute(
            "SELECT memory.id, feedback.number, helpful"
            " FROM feedback JOIN memory ON memory.number = feedback.memory ORDER BY 1, 2"
        )
        return [(memory_id, number, bool(helpful)) for memory_id, number, helpful in rows]


async def test_what_is_said_of_memories_is_numbered_for_each(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    first, second = await remember(organization, "first text", "second text")

    assert await say(organization, first, second) == 2
    assert await say(organization, first, helpful=False) == 1

    assert said(tmp_path, organization) == [
        (first, 1, True),
        (first, 2, False),
        (second, 1, True),
    ]


async def test_a_memory_named_twice_is_spoken_of_once(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    (memory_id,) = await remember(organization, "some text")

    assert await say(organization, memory_id, memory_id) == 1

    assert said(tmp_path, organization) == [(memory_id, 1, True)]


async def test_the_same_event_again_replaces_what_was_said(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    first, second = await remember(organization, "first text", "second text")
    await say(organization, first, event_id="event-1")
    await say(organization, first, event_id="event-2")

    await say(organization, first, second, event_id="event-1", helpful=False)

    assert said(tmp_path, organization) == [
        (first, 1, False),
        (first, 2, True),
        (second, 1, False),
    ]


async def test_one_unknown_memory_leaves_nothing_said(
    store: Store, organization: OrganizationStore, tmp_path: Path
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Other"), actor=ACTOR)
    (theirs,) = await remember(await store.organization(created.id), "a memory of theirs")
    (mine,) = await remember(organization, "a memory of mine")
    before = await organization.list_audit(limit=10, before=None)

    for unknown in (NOWHERE, theirs):
        with pytest.raises(NotFoundError) as refused:
            await say(organization, mine, unknown)

        assert (refused.value.kind, refused.value.identifier) == ("memory", unknown)
    assert said(tmp_path, organization) == []
    assert await organization.list_audit(limit=10, before=None) == before


async def test_a_recall_that_missed_is_kept_in_the_audit(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    told = await say(
        organization, helpful=False, event_id="event-1", failure_class="missing_content"
    )

    (entry,) = await organization.list_audit(limit=1, before=None)
    assert told == 0
    assert said(tmp_path, organization) == []
    assert (entry.actor, entry.action) == (ACTOR, "memory_feedback")
    assert entry.details == {
        "memories": 0,
        "helpful": False,
        "event_id": "event-1",
        "failure_class": "missing_content",
    }


async def test_older_words_give_way_to_newer(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FEEDBACK_KEPT", 3)
    (memory_id,) = await remember(organization, "some text")

    for helpful in (True, True, False, True, False):
        await say(organization, memory_id, helpful=helpful)

    kept = [(memory_id, 3, False), (memory_id, 4, True), (memory_id, 5, False)]
    assert said(tmp_path, organization) == kept


async def test_what_was_said_goes_with_a_purged_memory(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    first, second = await remember(organization, "first text", "second text")
    await say(organization, first, second)

    await organization.memories.purge(first, actor=ACTOR)

    assert said(tmp_path, organization) == [(second, 1, True)]


@given(verdicts=st.lists(st.booleans(), max_size=30))
async def test_usefulness_lies_between_minus_one_and_one_and_follows_every_word(
    organization: OrganizationStore, verdicts: Sequence[bool]
) -> None:
    told, untold = await remember(organization, "some text", "other text")

    values = [await usefulness_of(organization, told)]
    for helpful in verdicts:
        await say(organization, told, helpful=helpful)
        values.append(await usefulness_of(organization, told))

    assert all(-1 < value < 1 for value in values)
    for helpful, (before, after) in zip(verdicts, itertools.pairwise(values), strict=True):
        assert (after > before) is helpful
    assert await usefulness_of(organization, untold) == 0


async def usefulness_of(organization: OrganizationStore, memory_id: MemoryId) -> float:
    from engram.storage.memories import relations
    from engram.storage.memories import rows as memory_rows
    from engram.storage.organization import OrganizationStore

    assert isinstance(organization, OrganizationStore)
    tenant = organization._tenant  # pyright: ignore[reportPrivateUsage] no port shows it
    number = await tenant.read(lambda tx: memory_rows.find_memory(tx, memory_id))
    found = await tenant.read(lambda tx: relations.usefulness(tx, [number]))
    return found.get(number, 0)
