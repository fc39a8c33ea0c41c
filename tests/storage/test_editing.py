"""Editing conversations: title, tags, metadata and project."""

from __future__ import annotations

import pytest

from engram import limits
from engram.errors import LimitExceededError, NotFoundError, QuotaExceededError
from engram.model.access import Quota
from engram.model.conversation import (
    AppendRequest,
    Conversation,
    ConversationChange,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId
from engram.model.search import SearchFilters
from engram.storage.organization import OrganizationStore
from tests.storage.drafts import ACTOR, find


async def keep(organization: OrganizationStore, *contents: str, **draft: object) -> ConversationId:
    """Begin a conversation with some documents; return its id."""
    values = ConversationDraft(**draft)  # pyright: ignore[reportArgumentType] checked by the draft
    conversation_id = await organization.create_conversation(values, actor=ACTOR)
    messages = tuple(MessageDraft(role="document", content=each) for each in contents)
    request = AppendRequest(messages=messages, conversation_id=conversation_id)
    await organization.append_messages(request, actor=ACTOR, quota=Quota())
    return conversation_id


async def edit(
    organization: OrganizationStore, conversation_id: ConversationId, change: ConversationChange
) -> Conversation:
    titled = await organization.find_titled(conversation_id)
    edited = await organization.edit_conversation(
        conversation_id, change, actor=ACTOR, titled=titled
    )
    assert edited is not None
    return edited


async def findings(organization: OrganizationStore, term: str, **filters: object) -> int:
    chosen = SearchFilters(**filters)  # pyright: ignore[reportArgumentType] checked by the filters
    return len((await find(organization, term, limit=10, filters=chosen)).keys)


async def test_what_is_given_changes_and_the_rest_stays(organization: OrganizationStore) -> None:
    conversation_id = await keep(
        organization, "x", title="Old", agent_id="a", tags=("one",), metadata={"n": 1}
    )

    edited = await edit(organization, conversation_id, ConversationChange(tags=("two", "one")))

    page = await organization.get_conversation(MessageQuery(conversation_id=conversation_id))
    assert page.conversation == edited
    fields = (edited.title, edited.agent_id, edited.tags, edited.metadata, edited.project)
    assert fields == ("Old", "a", ("two", "one"), {"n": 1}, "default")
    assert [finding async for finding in organization.verify()] == []


async def test_a_moved_conversation_is_found_in_its_project_by_every_process(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await keep(organization, "lighthouses burn", project="north", tags=("old",))
    assert await findings(elsewhere, "lighthous", project="north", tags=("old",)) == 1

    change = ConversationChange(project="south", tags=("new",), metadata={"kept": True})
    await edit(organization, conversation_id, change)

    assert await findings(elsewhere, "lighthous", project="north") == 0
    assert await findings(elsewhere, "lighthous", tags=("old",)) == 0
    assert await findings(elsewhere, "lighthous", project="south", tags=("new",)) == 1
    listed = await elsewhere.list_conversations(ConversationQuery(project="south"))
    assert [each.id for each in listed.conversations] == [conversation_id]
    assert [finding async for finding in elsewhere.verify()] == []


async def test_documents_are_found_by_the_new_title_and_not_by_the_old(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await keep(organization, "They burn.", "All night.", title="Lighthouses")
    assert await findings(elsewhere, "lighthous") == 2

    await edit(organization, conversation_id, ConversationChange(title="Beacons"))

    assert await findings(elsewhere, "lighthous") == 0
    assert await findings(elsewhere, "beacon") == 2
    assert [finding async for finding in elsewhere.verify()] == []
    await organization.delete_conversation(conversation_id, actor=ACTOR)
    assert [finding async for finding in organization.verify()] == []


async def test_documents_appended_under_an_outdated_title_get_the_present_one(
    organization: OrganizationStore,
) -> None:
    conversation_id = await keep(organization, "They burn.", title="Lighthouses")
    await edit(organization, conversation_id, ConversationChange(title="Beacons"))

    request = AppendRequest(
        messages=(MessageDraft(role="document", content="All night."),),
        conversation_id=conversation_id,
    )
    await organization.append_messages(request, actor=ACTOR, quota=Quota(), title="Lighthouses")

    assert (await findings(organization, "lighthous"), await findings(organization, "beacon")) == (
        0,
        2,
    )
    assert [finding async for finding in organization.verify()] == []


async def test_an_edit_that_missed_a_document_changes_nothing(
    organization: OrganizationStore,
) -> None:
    conversation_id = await keep(organization, "They burn.", title="Lighthouses")

    change = ConversationChange(title="Beacons")
    edited = await organization.edit_conversation(conversation_id, change, actor=ACTOR, titled=())

    assert edited is None
    assert await findings(organization, "lighthous") == 1


async def test_a_title_of_too_many_documents_cannot_be_changed(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RETITLED_MESSAGES_MAX", 1)
    conversation_id = await keep(organization, "They burn.", "All night.", title="Lighthouses")

    with pytest.raises(LimitExceededError):
        await organization.find_titled(conversation_id)


async def test_editing_is_audited_by_the_names_of_fields(organization: OrganizationStore) -> None:
    conversation_id = await keep(organization, "x", title="Old")

    await edit(organization, conversation_id, ConversationChange(title="Secret", tags=("private",)))

    (entry, *_) = await organization.list_audit(limit=1, before=None)
    assert (entry.action, entry.subject) == ("edit_conversation", conversation_id)
    assert entry.details == {"fields": ["tags", "title"]}


async def test_the_quota_counts_what_an_edit_adds_and_gives_back(
    organization: OrganizationStore,
) -> None:
    conversation_id = await keep(organization, "x", title="Old")
    before = (await organization.counters()).use.stored_bytes
    longer = ConversationChange(metadata={"text": "x" * 500})

    with pytest.raises(QuotaExceededError):
        await organization.edit_conversation(
            conversation_id, longer, actor=ACTOR, quota=Quota(bytes_max=before + 100)
        )
    await edit(organization, conversation_id, longer)
    await edit(organization, conversation_id, ConversationChange(metadata={}))

    assert (await organization.counters()).use.stored_bytes == before


async def test_a_conversation_of_another_organisation_is_unknown(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    conversation_id = await keep(organization, "x", title="Old")

    with pytest.raises(NotFoundError):
        await other.edit_conversation(
            conversation_id, ConversationChange(title="Mine"), actor=ACTOR
        )


async def test_a_new_title_changes_the_scores_of_processes_that_have_searched_before(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    conversation_id = await keep(organization, "lighthouses burn", title="Old")
    await keep(organization, "foghorns sound")
    before = await find(organization, "lighthous", limit=10)

    await edit(organization, conversation_id, ConversationChange(title="On the lamps of the coast"))

    here, fresh = [await find(each, "lighthous", limit=10) for each in (organization, elsewhere)]
    assert here.share_message.tolist() == fresh.share_message.tolist()
    assert here.share_window.tolist() == fresh.share_window.tolist()
    assert here.share_message.tolist() != before.share_message.tolist()
