"""Everything that is stored counts towards the quota of bytes, exactly, and counts no more when it goes."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram.errors import QuotaExceededError
from engram.limits import STORED_ROW_BYTES
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.memory import MemoryDraft
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, findings, opened
from tests.storage.storing import ADDING, STEPS, Storing

pytestmark = promise("quotas")

ROW = STORED_ROW_BYTES


async def used(organization: OrganizationStore) -> int:
    return (await organization.counters()).use.stored_bytes


async def test_a_message_counts_its_row_and_all_texts_given_with_it(
    organization: OrganizationStore,
) -> None:
    conversation_id = await begin(organization)
    before = await used(organization)
    message = MessageDraft(
        role="tool",
        content="ä" * 500,
        name="Zoë",
        tool_call_id="id",
        tool_name="grep",
        metadata={"ü": 1},
    )

    request = AppendRequest(
        messages=(message,), conversation_id=conversation_id, idempotency_key="key"
    )
    await organization.append_messages(request, actor=ACTOR, quota=Quota())

    texts = len("ä".encode()) * 500 + len("Zoëidgrep".encode()) + len('{"ü":1}'.encode())
    assert await used(organization) - before == ROW + texts + ROW + len("key")


async def test_a_conversation_counts_its_fields_and_each_tag(
    organization: OrganizationStore,
) -> None:
    draft = ConversationDraft(
        title="Tïtle", agent_id="ag", project="pro", tags=("a", "bc"), metadata={"k": "v"}
    )

    await organization.create_conversation(draft, actor=ACTOR)

    texts = len("Tïtleagproabc".encode()) + len('{"k":"v"}')
    assert await used(organization) == 3 * ROW + texts


async def test_a_memory_counts_its_content_and_its_fields(
    organization: OrganizationStore,
) -> None:
    draft = MemoryDraft(content="ö" * 400, project="pro", source="src", tags=("a", "b"))

    await organization.memories.store([draft], actor=ACTOR, quota=Quota())

    assert await used(organization) == 3 * ROW + 800 + len("prosrc") + len(json.dumps(["a", "b"]))


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=40), quota=st.integers(0, 20_000))
async def test_any_history_counts_what_a_recount_counts_and_never_passes_the_quota(
    store: Store, clock: FakeClock, steps: list[str], quota: int
) -> None:
    created = await store.control.create_organization(OrganizationDraft(name="Acme"), actor="test")
    organization = await store.organization(created.id)
    storing = Storing(organization, clock, Quota(bytes_max=quota))

    for step in ["store_memories", "start_episode", *steps]:
        with suppress(QuotaExceededError):
            await storing.do(step)
        assert await used(organization) <= quota

    assert await findings(organization) == []


async def test_a_long_history_counts_what_a_recount_counts_and_all_of_it_is_given_back(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    storing = Storing(organization, clock)
    for _ in range(3):
        for step in STEPS:
            await storing.do(step)
    counted = await findings(organization)
    full = await used(organization)

    await storing.delete_everything()

    assert (counted, await findings(organization)) == ([], [])
    assert (full > 3_000, await used(organization)) == (True, 0)


@pytest.mark.parametrize("step", ADDING)
async def test_nothing_is_added_to_an_organisation_that_is_full(
    organization: OrganizationStore, clock: FakeClock, step: str
) -> None:
    storing = Storing(organization, clock)
    for each in ("create_conversation", "start_episode", "store_memories", "begin_upload"):
        await storing.do(each)
    await storing.do("begin_upload")
    while not storing.converted:
        for each in ("begin_upload", "add_part", "finish_upload"):
            await storing.do(each)
    storing.uploads.clear()
    await storing.do("begin_upload")
    await storing.do("add_part")
    if step == "restore":
        for memory_id in storing.memories:
            await organization.memories.forget(
                memory_id, reason="old", actor=ACTOR, now=clock.now()
            )
    full = await used(organization)
    storing.quota = Quota(bytes_max=full)

    if step == "convert":
        await storing.convert()
    else:
        with pytest.raises(QuotaExceededError) as refused:
            await storing.do_until_refused(step)
        error = refused.value
        assert (error.resource, error.limit) == ("bytes", full)
        assert error.used + error.needed > full

    assert await used(organization) <= full
    assert await findings(organization) == []


async def test_clients_at_once_store_exactly_up_to_the_quota(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await begin(organization)
    await append(organization, "a first one")  # The default conversation counts, too.
    each = ROW + len("exactly")
    quota = Quota(bytes_max=await used(organization) + 20 * each + each - 1)

    results = await asyncio.gather(
        *[
            append(store, "exactly", quota=quota)
            for _ in range(32)
            for store in (organization, elsewhere)
        ],
        return_exceptions=True,
    )

    refused = [result for result in results if isinstance(result, QuotaExceededError)]
    assert Counter((error.limit, error.needed) for error in refused) == {
        (quota.bytes_max, each): 44
    }
    assert await used(organization) == (quota.bytes_max or 0) - each + 1
    assert await findings(organization) == []


async def test_a_lowered_quota_refuses_what_adds_and_nothing_that_takes_away(
    organization: OrganizationStore,
) -> None:
    conversation_id = await begin(organization, "one", "two")
    memory = MemoryDraft(content="a memory")
    (stored,) = await organization.memories.store([memory], actor=ACTOR, quota=Quota())

    with pytest.raises(QuotaExceededError):
        await append(organization, "three", to=conversation_id, quota=Quota(bytes_max=10))

    await organization.delete_conversation(conversation_id, actor=ACTOR)
    await organization.memories.purge(stored.id, actor=ACTOR)
    assert await used(organization) == 0


@promise("one-truth")
async def test_a_wrong_count_is_found_and_mended(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await begin(organization, "one", "two", title="a title")
    true = await used(organization)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE counters SET stored_bytes = 5, file_bytes = 7")

    found = await findings(organization)
    await organization.repair()

    assert [(finding.check, finding.repairable) for finding in found] == [("counters", True)]
    counters = await organization.counters()
    assert (counters.stored_bytes, counters.file_bytes) == (true, 7)
    assert await findings(organization) == []


async def test_files_count_beside_what_is_stored(organization: OrganizationStore) -> None:
    await begin(organization, "one")
    quota = Quota(bytes_max=await used(organization) + 1_000)

    await organization.add_file_bytes(900, quota=quota)
    with pytest.raises(QuotaExceededError):
        await organization.add_file_bytes(101, quota=quota)
    with pytest.raises(QuotaExceededError):
        await append(organization, "two", quota=quota)
    await organization.put_file_bytes(0)

    await append(organization, "two", quota=Quota(bytes_max=(quota.bytes_max or 0)))
