"""The contract of appending: verbatim, in sequence, all or nothing, once for each key."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engram import limits
from engram.errors import LimitExceededError, NotFoundError, QuotaExceededError
from engram.model.access import AuditEntry, Quota
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.ids import ConversationId, message_id
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    UNBOUNDED,
    append,
    begin,
    findings,
    read,
    read_texts,
)

NOWHERE = ConversationId("conv_nowhere")
A_DAY = timedelta(hours=limits.IDEMPOTENCY_HOURS)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


@promise("verbatim")
async def test_a_message_comes_back_with_everything_it_was_given(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    conversation_id = await begin(organization)
    said = datetime(1969, 7, 20, 22, 56, 15, 123456, tzinfo=timezone(timedelta(hours=2)))
    draft = MessageDraft(
        role="tool",
        content="42",
        name="Ada",
        tool_call_id="call-1",
        tool_name="calculator",
        occurred_at=said,
        metadata={"ünï": [1, 2.5, None, {"deep": "\u0000"}], "big": 10**30},
    )

    receipt = await organization.append_messages(
        AppendRequest(messages=(draft,), conversation_id=conversation_id),
        actor=ACTOR,
        quota=UNBOUNDED,
    )

    (message,) = await read(organization, conversation_id)
    assert receipt.message_ids == (message.id,)
    assert message.id == message_id(conversation_id, 1)
    assert message.sequence == 1
    assert (message.role, message.content, message.name) == ("tool", "42", "Ada")
    assert (message.tool_call_id, message.tool_name) == ("call-1", "calculator")
    assert message.occurred_at == said
    assert message.metadata == draft.metadata
    assert message.created_at == clock.now()


@promise("verbatim")
@given(contents=st.lists(texts, min_size=1, max_size=5))
@example(
    contents=["\x00", "\r", "\x1b[1m", "\ufeff", "\U0001f469\u200d\U0001f680", "e\u0301 é", ""]
)
@example(contents=["x" * 1_000_000])
async def test_any_text_round_trips(organization: OrganizationStore, contents: list[str]) -> None:
    conversation_id = await begin(organization)

    await append(organization, *contents, to=conversation_id)

    assert await read_texts(organization, conversation_id) == contents


@promise("verbatim")
async def test_the_largest_message_round_trips(organization: OrganizationStore) -> None:
    content = "start " + "é" * (limits.MESSAGE_BYTES_MAX // 2 - 6) + "\r end\x00"

    receipt = await append(organization, content)
    await append(organization, "after it")

    assert len(content.encode()) > limits.MESSAGE_BYTES_MAX - 10
    assert await read_texts(organization, receipt.conversation_id) == [content, "after it"]
    assert await findings(organization) == []


@pytest.mark.parametrize("year", [1, 9999])
async def test_a_message_may_be_said_in_any_year(
    organization: OrganizationStore, year: int
) -> None:
    said = datetime(year, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    draft = MessageDraft(role="user", content="long ago", occurred_at=said)

    receipt = await organization.append_messages(
        AppendRequest(messages=(draft,)), actor=ACTOR, quota=UNBOUNDED
    )

    (message,) = await read(organization, receipt.conversation_id)
    assert message.occurred_at == said


@promise("processes")
async def test_sequences_continue_without_gap(organization: OrganizationStore) -> None:
    conversation_id = await begin(organization)

    first = await append(organization, "one", "two", to=conversation_id)
    second = await append(organization, "three", to=conversation_id)

    assert (first.first_sequence, first.last_sequence) == (1, 2)
    assert (second.first_sequence, second.last_sequence) == (3, 3)
    messages = await read(organization, conversation_id)
    assert [message.sequence for message in messages] == [1, 2, 3]
    assert tuple(message.id for message in messages) == first.message_ids + second.message_ids


@promise("processes")
async def test_concurrent_appends_get_sequences_of_their_own(
    organization: OrganizationStore,
) -> None:
    conversation_id = await begin(organization)
    calls = [(f"{number} a", f"{number} b") for number in range(40)]

    receipts = await asyncio.gather(
        *[append(organization, *texts, to=conversation_id) for texts in calls]
    )

    stored = await read_texts(organization, conversation_id)
    assert len(stored) == 80
    for receipt, texts in zip(receipts, calls, strict=True):
        assert tuple(stored[receipt.first_sequence - 1 : receipt.last_sequence]) == texts
    assert await findings(organization) == []


async def test_without_a_conversation_the_default_one_takes_them(
    organization: OrganizationStore,
) -> None:
    await begin(organization, title="Memory")

    receipts = await asyncio.gather(*[append(organization, f"text {i}") for i in range(10)])

    assert len({receipt.conversation_id for receipt in receipts}) == 1
    page = await organization.list_conversations(ConversationQuery(sort="created_at"))
    assert page.total == 2
    default = next(one for one in page.conversations if one.message_count)
    assert (default.id, default.title) == (receipts[0].conversation_id, "Memory")
    assert default.message_count == 10


async def test_a_deleted_default_conversation_is_made_again(
    organization: OrganizationStore,
) -> None:
    first = await append(organization, "one")
    await organization.delete_conversation(first.conversation_id, actor=ACTOR)

    second = await append(organization, "two")

    assert second.conversation_id != first.conversation_id
    assert await read_texts(organization, second.conversation_id) == ["two"]


async def test_appending_to_an_unknown_conversation_stores_nothing(
    organization: OrganizationStore,
) -> None:
    with pytest.raises(NotFoundError):
        await append(organization, "lost", to=NOWHERE, key="once")

    assert (await organization.counters()).messages == 0
    assert (await append(organization, "found", key="once")).repeated is False


@promise("idempotent")
async def test_a_repeated_key_returns_the_first_receipt_and_stores_nothing(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    first = await append(organization, "one", "two", key="once")
    clock.advance(A_DAY - timedelta(microseconds=1))

    second = await append(organization, "one", "two", key="once")

    assert second.repeated
    assert not first.repeated
    assert second.message_ids == first.message_ids
    assert (second.conversation_id, second.first_sequence, second.last_sequence) == (
        first.conversation_id,
        first.first_sequence,
        first.last_sequence,
    )
    assert await read_texts(organization, first.conversation_id) == ["one", "two"]


@promise("idempotent")
async def test_a_key_counts_for_a_day(organization: OrganizationStore, clock: FakeClock) -> None:
    await append(organization, "one", key="once")
    clock.advance(A_DAY)

    again = await append(organization, "two", key="once")
    repeated = await append(organization, "two", key="once")

    assert (again.repeated, again.first_sequence) == (False, 2)
    assert (repeated.repeated, repeated.first_sequence) == (True, 2)


@promise("idempotent")
async def test_callers_with_one_key_store_once(organization: OrganizationStore) -> None:
    receipts = await asyncio.gather(
        *[append(organization, "the same", key="once") for _ in range(10)]
    )

    assert [receipt.repeated for receipt in receipts].count(False) == 1
    assert (await organization.counters()).messages == 1


async def test_keys_of_other_calls_do_not_count(organization: OrganizationStore) -> None:
    await append(organization, "one", key="once")

    other = await append(organization, "two", key="Once")

    assert other.first_sequence == 2


@promise("quotas")
async def test_a_quota_of_messages_is_never_passed(organization: OrganizationStore) -> None:
    quota = Quota(messages_max=5)

    results = await asyncio.gather(
        *[append(organization, "one", "two", quota=quota) for _ in range(4)],
        return_exceptions=True,
    )

    refused = [result for result in results if isinstance(result, QuotaExceededError)]
    assert [(error.resource, error.limit) for error in refused] == [("messages", 5)] * 2
    assert (await organization.counters()).messages == 4


@promise("quotas")
async def test_a_quota_of_bytes_counts_utf8(organization: OrganizationStore) -> None:
    await append(organization, "äö")
    used = (await organization.counters()).stored_bytes
    quota = Quota(bytes_max=used + limits.STORED_ROW_BYTES + 2)

    with pytest.raises(QuotaExceededError):
        await append(organization, "äa", quota=quota)

    await append(organization, "ab", quota=quota)
    assert (await organization.counters()).content_bytes == 6


async def test_a_refused_append_leaves_no_trace(organization: OrganizationStore) -> None:
    before = await organization.counters()

    with pytest.raises(QuotaExceededError):
        await append(organization, "too much", key="k", quota=Quota(messages_max=0))

    assert await organization.counters() == before
    assert await organization.list_audit(limit=10, before=None) == ()
    assert (await organization.list_conversations(ConversationQuery())).total == 0


async def test_a_conversation_has_a_last_sequence(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONVERSATION_MESSAGES_MAX", 3)
    conversation_id = await begin(organization, "one", "two")

    with pytest.raises(LimitExceededError):
        await append(organization, "three", "four", to=conversation_id)

    await append(organization, "three", to=conversation_id)


async def test_an_append_moves_the_conversation_forward_in_time(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    conversation_id = await begin(organization, "one")
    begun = clock.now()
    clock.advance(timedelta(minutes=5))

    await append(organization, "two", to=conversation_id)
    clock.advance(-timedelta(minutes=1))
    await append(organization, "three", to=conversation_id)

    page = await organization.get_conversation(MessageQuery(conversation_id=conversation_id))
    assert page.conversation.created_at == begun
    assert page.conversation.updated_at == begun + timedelta(minutes=5)


@promise("audit")
async def test_every_write_is_audited_without_its_content(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    conversation_id = await begin(organization, "a secret")
    await organization.delete_conversation(conversation_id, actor="key_other")

    entries = await organization.list_audit(limit=10, before=None)

    assert [(entry.actor, entry.action, entry.subject) for entry in entries] == [
        ("key_other", "delete_conversation", conversation_id),
        (ACTOR, "append_messages", conversation_id),
        (ACTOR, "create_conversation", conversation_id),
    ]
    assert "secret" not in repr(entries)
    assert all(entry.id.startswith("aud_") for entry in entries)
    assert entries[-1].at == clock.now()


@promise("audit")
async def test_the_audit_is_read_page_by_page_without_loss(
    organization: OrganizationStore,
) -> None:
    for number in range(7):
        await append(organization, str(number))
    whole = await organization.list_audit(limit=100, before=None)

    pages: list[AuditEntry] = []
    before: datetime | None = None
    while page := await organization.list_audit(limit=3, before=before):
        pages.extend(page)
        before = page[-1].at

    assert len(whole) == 8
    assert tuple(pages) == whole
    assert len({entry.id for entry in whole}) == 8


async def test_a_conversation_keeps_all_it_was_given(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    draft = ConversationDraft(
        title="A\ttitle\n",
        agent_id="agent",
        project="proj/é",
        tags=("z", "a", "m"),
        metadata={"k": ["v", {"n": 1}]},
    )

    conversation_id = await organization.create_conversation(draft, actor=ACTOR)

    page = await organization.get_conversation(MessageQuery(conversation_id=conversation_id))
    conversation = page.conversation
    assert (conversation.id, conversation.title) == (conversation_id, "A\ttitle\n")
    assert (conversation.agent_id, conversation.project) == ("agent", "proj/é")
    assert conversation.tags == ("z", "a", "m")
    assert conversation.metadata == {"k": ["v", {"n": 1}]}
    assert (conversation.message_count, page.total, page.messages) == (0, 0, ())
    assert conversation.created_at == conversation.updated_at == clock.now()
