"""Documents in conversations are found by the title of their conversation, and other messages not."""

from __future__ import annotations

from datetime import timedelta

from engram.model.access import Quota
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    Role,
)
from engram.storage.organization import OrganizationStore
from tests.storage.drafts import ACTOR, find


async def keep(organization: OrganizationStore, role: Role, *, name: str | None = None) -> None:
    """Begin a conversation about lighthouses with one message that does not say so."""
    draft = ConversationDraft(title="Lighthouses of the north")
    conversation_id = await organization.create_conversation(draft, actor=ACTOR)
    message = MessageDraft(role=role, content="They burn all night.", name=name)
    request = AppendRequest(messages=(message,), conversation_id=conversation_id)
    await organization.append_messages(request, actor=ACTOR, quota=Quota())


async def findings(organization: OrganizationStore, *terms: str) -> int:
    return len((await find(organization, *terms, limit=10)).keys)


async def test_a_document_is_found_by_its_title(organization: OrganizationStore) -> None:
    await keep(organization, "document")

    assert await findings(organization, "lighthous") == 1


async def test_what_was_said_is_not_found_by_the_title(organization: OrganizationStore) -> None:
    await keep(organization, "user")
    await keep(organization, "document", name="The keeper")

    assert await findings(organization, "lighthous") == 0


async def test_new_indexes_hold_the_same_words(organization: OrganizationStore) -> None:
    await keep(organization, "document")

    await organization.reindex()

    assert await findings(organization, "lighthous") == 1
    assert [finding async for finding in organization.verify()] == []


async def test_nothing_of_the_title_is_left_when_the_conversation_is_deleted(
    organization: OrganizationStore,
) -> None:
    await keep(organization, "document")
    page = await organization.list_conversations(ConversationQuery())

    await organization.delete_conversation(page.conversations[0].id, actor=ACTOR)

    assert await findings(organization, "lighthous") == 0
    assert [finding async for finding in organization.verify()] == []


async def test_a_document_waits_for_its_vector_under_its_title(
    organization: OrganizationStore,
) -> None:
    await keep(organization, "document")
    await organization.adopt_embedder("deep-model")

    (waiting,) = await organization.claim_unembedded(
        owner="job_1", lease=timedelta(minutes=1), limit=5, characters_max=1_000
    )

    assert waiting.name == "Lighthouses of the north"
