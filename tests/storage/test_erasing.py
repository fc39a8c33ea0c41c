"""Erasing conversations, projects and subjects: from every row, index, cache and file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from engram.errors import HeldError, InvalidRequestError, NotFoundError
from engram.model.access import Quota
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    MessageDraft,
    MessageQuery,
)
from engram.model.erasure import ErasureRequest
from engram.model.ids import ConversationId
from engram.model.memory import MemoryDraft, MemoryQuery
from engram.model.retention import HoldDraft
from engram.model.search import SearchFilters
from engram.model.trash import TrashQuery
from engram.model.value import replace
from engram.storage.content import compression
from engram.storage.organization import OrganizationStore
from engram.storage.projects import Moving
from engram.storage.sqlite.copies import keep_copy
from tests.promises import promise
from tests.storage.captures import session
from tests.storage.deliveries import told
from tests.storage.drafts import (
    ACTOR,
    append,
    begin,
    dump,
    encodings,
    find,
    findings,
    on_sqlite,
    opened,
    read_texts,
    sentence,
)
from tests.storage.erasures import erase, finish, places_of, unique_word
from tests.storage.finding import Kept
from tests.storage.memory_drafts import store as store_memories
from tests.storage.test_dictionaries import fill

pytestmark = promise("erasure")

WORD, OTHER = unique_word(1), unique_word(2)


def long_text(seed: int) -> str:
    """Return a text that is stored compressed."""
    return f"{sentence(seed)} {sentence(seed + 1)}"


def stored_blobs(folder: Path, organization: OrganizationStore, text: str) -> list[bytes]:
    """Return the stored bytes of messages with a length of text."""
    with opened(folder, organization) as rows:
        found = rows.execute(
            "SELECT CAST(content AS BLOB) FROM message WHERE characters = :size",
            {"size": len(text)},
        )
        return [bytes(content) for (content,) in found]


async def say(
    organization: OrganizationStore, *messages: MessageDraft, **draft: object
) -> ConversationId:
    values = ConversationDraft(**draft)  # pyright: ignore[reportArgumentType] checked by the draft
    conversation_id = await organization.create_conversation(values, actor=ACTOR)
    request = AppendRequest(messages=messages, conversation_id=conversation_id)
    await organization.append_messages(request, actor=ACTOR, quota=Quota())
    return conversation_id


def said(content: str, *, name: str | None = None, **metadata: object) -> MessageDraft:
    return MessageDraft(role="user", content=content, name=name, metadata=metadata or None)


async def test_an_erased_conversation_is_gone_from_every_table(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    kept = await begin(organization, "stays here")
    gone = await begin(organization, f"the word {WORD}", long_text(7), title=OTHER, tags=(OTHER,))
    assert len((await find(elsewhere, WORD)).keys)

    receipt = await erase(organization, ErasureRequest(conversation_id=gone))

    assert receipt.state == "finished"
    assert receipt.removed == {"conversations": 1, "messages": 2}
    assert not len((await find(elsewhere, WORD)).keys)
    assert await read_texts(elsewhere, kept) == ["stays here"]
    with pytest.raises(NotFoundError):
        await read_texts(elsewhere, gone)
    with opened(tmp_path, organization) as rows:
        assert WORD not in repr(dump(rows))
        assert OTHER not in repr(dump(rows))
    assert await findings(elsewhere) == []


@on_sqlite
async def test_nothing_of_it_is_left_in_the_raw_files(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    text = long_text(7)
    tags = tuple(unique_word(100 + place) for place in range(40))
    gone = await begin(organization, f"the word {WORD}", text, title=f"about {OTHER}", tags=tags)
    # Rows around it, so that pages are split: what moved on may stay in the free space of a page.
    for number in range(120):
        others = tuple(unique_word(1_000 + 20 * number + place) for place in range(20))
        await begin(organization, sentence(number), tags=others)
    (blob,) = stored_blobs(tmp_path, organization, text)
    needles = (blob, *(each.encode() for each in (WORD, OTHER, *tags)))
    assert len(blob) < len(text) / 2
    assert all(places_of(tmp_path, needle) for needle in needles)
    await find(elsewhere, WORD)
    (file,) = tmp_path.rglob(f"{organization.organization_id}.db")
    copy = keep_copy(file, version=2)

    receipt = await erase(organization, ErasureRequest(conversation_id=gone))

    assert places_of(tmp_path, *needles) == []
    assert receipt.files == (file.name, copy.name)
    assert await findings(elsewhere) == []


async def test_it_is_invisible_to_every_process_when_the_erasure_has_begun(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    gone = await begin(organization, f"the word {WORD}", title="Ferry")
    assert len((await find(elsewhere, WORD)).keys)

    receipt = await organization.erasing.begin(ErasureRequest(conversation_id=gone), actor=ACTOR)

    assert receipt.state == "hiding"
    assert not len((await find(elsewhere, WORD)).keys)
    listed = await elsewhere.list_conversations(ConversationQuery())
    assert (listed.total, listed.conversations) == (0, ())
    with pytest.raises(NotFoundError):
        await elsewhere.get_conversation(MessageQuery(conversation_id=gone))
    with pytest.raises(NotFoundError):
        await append(elsewhere, "more", to=gone)
    assert await findings(elsewhere) == []
    await finish(elsewhere, receipt.id)
    assert await findings(organization) == []


async def test_a_long_conversation_is_deleted_in_steps_and_unknown_at_once(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    kept = await begin(organization, "stays here")
    gone = await fill(organization, 600)
    await append(organization, f"the word {WORD}", to=gone, key="once")

    receipt = await organization.delete_conversation(gone, actor=ACTOR)

    assert (receipt.messages, receipt.chunks) == (601, 200)
    assert not len((await find(elsewhere, WORD)).keys)
    listed = await elsewhere.list_conversations(ConversationQuery())
    assert [each.id for each in listed.conversations] == [kept]
    assert await findings(elsewhere) == []
    steps = 0
    while await elsewhere.remove_leaving():
        steps += 1
        assert await findings(organization) == []
    counters = await organization.counters()
    assert (steps, counters.messages, counters.conversations) == (3, 1, 1)


async def test_a_project_goes_with_conversations_memories_and_episodes(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await begin(organization, f"the word {WORD}", project=OTHER)
    await begin(organization, "stays", project="other")
    await store_memories(
        organization,
        MemoryDraft(content=f"note {WORD}", project=OTHER, immutable=True),
        MemoryDraft(content="another note", project="other"),
    )
    await organization.memories.start_episode(OTHER, WORD, actor=ACTOR, quota=Quota())
    request = ErasureRequest(project=OTHER)

    counted = await organization.erasing.count(request)
    receipt = await erase(organization, request)

    assert counted == {"conversations": 1, "messages": 1, "memories": 1}
    assert receipt.removed == {**counted, "episodes": 1}
    with opened(tmp_path, organization) as rows:
        left = repr(dump(rows))
    assert (WORD in left, OTHER in left) == (False, False)
    assert (await organization.counters()).memories == 1
    assert await findings(organization) == []


async def test_aliases_undo_and_the_audit_do_not_name_an_erased_project(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    drafts = (MemoryDraft(content=name, project=name) for name in ("quay", "kept"))
    moved, kept = [each.id for each in await store_memories(organization, *drafts)]
    talk = await begin(organization, "hello", project=OTHER)
    projects = organization.projects
    await projects.set_rule("quay", OTHER, actor=ACTOR)
    await projects.move(Moving("quay", OTHER), actor=ACTOR, limit=9)
    merge = {"project": "quay", "into": OTHER, "rule": "quay", "memories": [moved]}
    merged = await projects.add_change_set("merge", merge, actor=ACTOR)
    ranks = {"memories": {moved: 1, kept: 2}, "importance": 3}
    ranked = await projects.add_change_set("importance", ranks, actor=ACTOR)
    trash = {"memories": [kept, moved, talk]}
    trashed = await projects.add_change_set("trash", trash, actor=ACTOR)

    await erase(organization, ErasureRequest(project=OTHER))

    with opened(tmp_path, organization) as rows:
        assert OTHER not in repr(dump(rows))
    assert await projects.list_rules() == ()
    with pytest.raises(NotFoundError):
        await projects.get_change_set(merged)
    assert (await projects.get_change_set(ranked)).items == {**ranks, "memories": {kept: 2}}
    assert (await projects.get_change_set(trashed)).items == {"memories": [kept]}
    assert await findings(organization) == []


async def test_an_excluded_project_stays_excluded_when_it_is_erased(
    organization: OrganizationStore,
) -> None:
    await begin(organization, "hello", project=OTHER)
    rule = await organization.projects.set_rule(OTHER, None, actor=ACTOR)

    await erase(organization, ErasureRequest(project=OTHER))

    assert await organization.projects.list_rules() == (rule,)


async def test_a_speaker_is_erased_from_conversations_of_others(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    shared = await say(
        organization,
        said("hello Ada", name="Bo"),
        said(f"the word {WORD}", name="Ada", secret=OTHER),
        said("and so on", name="Bo"),
    )
    assert len((await find(elsewhere, WORD)).keys)
    request = ErasureRequest(subject="name=Ada")

    counted = await organization.erasing.count(request)
    receipt = await erase(organization, request)

    assert counted == {"messages": 1} == receipt.removed
    page = await elsewhere.get_conversation(MessageQuery(conversation_id=shared))
    assert [each.content for each in page.messages] == ["hello Ada", "", "and so on"]
    assert page.messages[1].metadata == {"erased": receipt.id}
    assert page.messages[1].name is None
    with opened(tmp_path, organization) as rows:
        left = repr(dump(rows))
    assert (WORD in left, OTHER in left, "'Ada'" in left) == (False, False, False)
    assert await findings(elsewhere) == []


async def test_processes_that_have_searched_score_what_is_left_like_others(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    long = said("the ferry leaves from the north pier at noon", name="Ada")
    await say(organization, said("lanterns", name="Bo"), long, *[said("yes", name="Bo")] * 4)
    await say(organization, said("oars and sails and rope", name="Bo"))
    before = await find(organization, "lantern")

    await erase(organization, ErasureRequest(subject="name=Ada"))

    here, fresh = await find(organization, "lantern"), await find(elsewhere, "lantern")
    assert here.share_window.tolist() == fresh.share_window.tolist()
    assert here.share_window.tolist() != before.share_window.tolist()


async def test_metadata_and_agents_and_sources_are_subjects_too(
    organization: OrganizationStore,
) -> None:
    await say(organization, said("one"), metadata={"customer": 42})
    await say(organization, said("two", customer="42"), said("three", customer=7))
    await say(organization, said("four"), agent_id="scout")
    await store_memories(organization, MemoryDraft(content="five", source="slack"))

    receipts = [
        await erase(organization, ErasureRequest(subject=subject))
        for subject in ("metadata.customer=42", "agent_id=scout", "source=slack", "name=nobody")
    ]

    assert [dict(receipt.removed) for receipt in receipts] == [
        {"conversations": 1, "messages": 2},
        {"conversations": 1, "messages": 1},
        {"memories": 1},
        {},
    ]
    counters = await organization.counters()
    assert (counters.conversations, counters.messages) == (1, 2)
    assert await findings(organization) == []


@pytest.mark.parametrize("subject", ["Ada", "name=", "title=x", "metadata=x", "metadata.=x"])
def test_a_subject_needs_a_field_that_is_known_and_a_value(subject: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        ErasureRequest(subject=subject)

    assert refused.value.field == "subject"


async def test_what_was_erased_is_not_captured_again(organization: OrganizationStore) -> None:
    request = session("a", "b")
    assert await organization.capture_messages(request, actor=ACTOR, quota=Quota())
    conversation_id = (await organization.find_uncaptured(request)).conversation_id

    await erase(organization, ErasureRequest(conversation_id=conversation_id))

    left = await organization.find_uncaptured(request)
    assert (left.is_forgotten, left.messages) == (True, ())


async def test_a_blanked_message_is_not_captured_again(organization: OrganizationStore) -> None:
    request = session("a", "b")
    first, second = request.messages
    request = replace(request, messages=(replace(first, name="Ada"), second))
    assert await organization.capture_messages(request, actor=ACTOR, quota=Quota())

    await erase(organization, ErasureRequest(subject="name=Ada"))

    left = await organization.find_uncaptured(request)
    assert (left.is_forgotten, left.messages) == (False, ())
    assert await read_texts(organization, left.conversation_id) == ["", "said b"]


async def test_the_log_of_deliveries_forgets_the_session(organization: OrganizationStore) -> None:
    request = session("a", name="s1")
    await organization.capture_messages(request, actor=ACTOR, quota=Quota())
    await organization.record_deliveries(told("s1"))
    await organization.record_deliveries(told("s2", after_s=1))
    conversation_id = (await organization.find_uncaptured(request)).conversation_id

    receipt = await erase(organization, ErasureRequest(conversation_id=conversation_id))

    assert receipt.removed["deliveries"] == 1
    assert [each.session for each in await organization.list_deliveries(limit=9)] == ["s2"]


async def test_the_log_forgets_what_showed_a_message_and_every_question(
    organization: OrganizationStore,
) -> None:
    request = session("a", name="s1")
    await organization.capture_messages(request, actor=ACTOR, quota=Quota())
    conversation_id = (await organization.find_uncaptured(request)).conversation_id
    showing = replace(told("s3"), shown=(f"{conversation_id}#1",))
    asked = replace(told("key_1", after_s=1), event="search", query="where does Ada live", shown=())
    await organization.record_deliveries(showing, asked, told("s2", after_s=2))

    receipt = await erase(organization, ErasureRequest(conversation_id=conversation_id))

    assert receipt.removed["deliveries"] == 2
    assert [each.session for each in await organization.list_deliveries(limit=9)] == ["s2"]


@on_sqlite
async def test_dictionaries_that_may_quote_it_are_replaced(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    texts = [f"{WORD} {sentence(number)}" for number in range(400)]
    gone = await begin(organization)
    for start in range(0, 400, 200):
        await append(organization, *texts[start : start + 200], to=gone)
    kept = await fill(organization, 800)
    assert await compression.train(organization.tenant)
    await append(organization, long_text(1), to=kept)
    await append(elsewhere, "learns of it", to=kept)
    await append(elsewhere, long_text(2), to=kept)
    assert "zstd:1" in encodings(tmp_path, organization)
    before = await read_texts(organization, kept)

    await erase(organization, ErasureRequest(conversation_id=gone))
    # This process has the dictionary in memory still.
    await append(elsewhere, long_text(3), to=kept)

    assert not any((each or "").startswith("zstd:") for each in encodings(tmp_path, organization))
    assert places_of(tmp_path, WORD.encode()) == []
    assert (await read_texts(elsewhere, kept))[: len(before)] == before
    assert await findings(elsewhere) == []
    assert await compression.train(organization.tenant)


async def test_no_dictionary_is_trained_while_something_is_erased(
    organization: OrganizationStore,
) -> None:
    gone = await begin(organization, "word")
    await fill(organization, 800)

    receipt = await organization.erasing.begin(ErasureRequest(conversation_id=gone), actor=ACTOR)

    assert not await compression.train(organization.tenant)
    await finish(organization, receipt.id)
    assert await compression.train(organization.tenant)


async def test_the_receipt_and_the_audit_do_not_say_what_was_erased(
    organization: OrganizationStore,
) -> None:
    await say(organization, said("hello", name="Ada"))

    receipt = await erase(organization, ErasureRequest(subject="name=Ada"))

    (entry,) = [
        each
        for each in await organization.list_audit(limit=9, before=None)
        if each.action == "erase"
    ]
    assert (entry.subject, entry.details) == (None, {"erasure": receipt.id, "scope": "subject"})
    assert await organization.erasing.list(limit=9) == (receipt,)


async def test_what_is_stored_after_the_request_stays(organization: OrganizationStore) -> None:
    await begin(organization, "old", project="harbour")
    receipt = await organization.erasing.begin(ErasureRequest(project="harbour"), actor=ACTOR)
    later = await begin(organization, "new", project="harbour")

    done = await finish(organization, receipt.id)

    assert done.removed == {"conversations": 1, "messages": 1}
    assert await read_texts(organization, later) == ["new"]


async def test_an_erasure_goes_on_where_it_was_left(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    for number in range(3):
        await begin(organization, f"{WORD} {number}", project="harbour")
    await store_memories(organization, MemoryDraft(content=f"note {WORD}", project="harbour"))
    receipt = await organization.erasing.begin(ErasureRequest(project="harbour"), actor=ACTOR)
    await organization.erasing.hide(receipt.id)
    await organization.erasing.remove_some(receipt.id)

    done = await finish(elsewhere, receipt.id)
    again = await finish(organization, receipt.id)

    assert done == again
    assert done.removed == {"conversations": 3, "messages": 3, "memories": 1}
    with opened(tmp_path, organization) as rows:
        assert WORD not in repr(dump(rows))


async def test_another_organisation_knows_nothing_of_an_erasure(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    theirs = await begin(other, "theirs", project="harbour")
    receipt = await erase(organization, ErasureRequest(project="harbour"))

    with pytest.raises(NotFoundError):
        await other.erasing.get(receipt.id)
    with pytest.raises(NotFoundError):
        await organization.erasing.begin(ErasureRequest(conversation_id=theirs), actor=ACTOR)
    assert await read_texts(other, theirs) == ["theirs"]


def test_an_erasure_is_about_one_thing() -> None:
    with pytest.raises(InvalidRequestError):
        ErasureRequest()
    with pytest.raises(InvalidRequestError):
        ErasureRequest(project="a", subject="name=b")


async def test_memories_of_a_project_that_were_purged_stay_tombstones(
    organization: OrganizationStore,
) -> None:
    (stored,) = await store_memories(
        organization, MemoryDraft(content="note of the harbour", project="harbour")
    )

    await erase(organization, ErasureRequest(project="harbour"))

    tombstone = await organization.memories.purge(stored.id, actor=ACTOR)
    assert tombstone.id == stored.id
    page = await organization.memories.list(MemoryQuery(), now=organization.tenant.clock.now())
    assert page.total == 0


async def test_a_process_drops_the_texts_it_has_cached(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    shared = await say(organization, said(f"the word {WORD}", name="Ada"), said("and more"))
    keys = [int(key) for key in (await find(elsewhere, WORD)).keys]
    loaded = await elsewhere.search(
        [WORD],
        vectors=(),
        filters=SearchFilters(),
        now=0,
        limit=10,
        choose=lambda found: Kept(found, messages=found.keys.tolist()),
    )
    assert loaded[1].messages
    assert any(elsewhere.tenant.message_cache.get(key) for key in keys)

    await erase(organization, ErasureRequest(subject="name=Ada"))
    await elsewhere.erasing.drop_cached()

    assert not any(elsewhere.tenant.message_cache.get(key) for key in keys)
    assert await read_texts(elsewhere, shared) == ["", "and more"]


async def test_erasure_knows_no_trash(organization: OrganizationStore, tmp_path: Path) -> None:
    by_id = await begin(organization, f"one {WORD}")
    by_project = await begin(organization, f"two {WORD}", project="harbour")
    by_name = await say(organization, said(f"three {WORD}", name="Ada"))
    kept = await begin(organization, "stays here")
    for each in (by_id, by_project, by_name, kept):
        await organization.trash.trash_conversation(each, actor=ACTOR, keep=timedelta(days=30))

    receipts = [
        await erase(organization, ErasureRequest(conversation_id=by_id)),
        await erase(organization, ErasureRequest(project="harbour")),
        await erase(organization, ErasureRequest(subject="name=Ada")),
    ]

    assert [dict(receipt.removed) for receipt in receipts] == [{"trashed": 1}] * 3
    assert [each.id for each in (await organization.trash.list(TrashQuery())).entries] == [kept]
    with opened(tmp_path, organization) as rows:
        assert WORD not in repr(dump(rows))


@promise("holds")
async def test_nothing_is_erased_if_any_of_it_is_under_a_legal_hold(
    organization: OrganizationStore,
) -> None:
    await begin(organization, "goes first", project="harbour")
    held = await say(organization, said("stays", name="Ada"), project="harbour")
    hold = await organization.retention.add_hold(HoldDraft(reason="case 12", id=held), actor=ACTOR)
    requests = [
        ErasureRequest(conversation_id=held),
        ErasureRequest(project="harbour"),
        ErasureRequest(subject="name=Ada"),
    ]
    for request in requests:
        with pytest.raises(HeldError, match="case 12"):
            await organization.erasing.begin(request, actor=ACTOR)

    assert (await organization.list_conversations(ConversationQuery())).total == 2
    assert await organization.erasing.list(limit=10) == ()
    await organization.trash.trash_conversation(
        await begin(organization, "in the trash", project="quay"),
        actor=ACTOR,
        keep=timedelta(days=30),
    )
    await organization.retention.add_hold(HoldDraft(reason="case 13", project="quay"), actor=ACTOR)
    with pytest.raises(HeldError, match="case 13"):
        await organization.erasing.begin(ErasureRequest(project="quay"), actor=ACTOR)

    await organization.retention.lift_hold(hold.id, actor=ACTOR)
    receipt = await erase(organization, requests[1])

    assert dict(receipt.removed)["conversations"] == 2


async def test_what_is_in_the_trash_outlives_a_dropped_dictionary(
    organization: OrganizationStore,
) -> None:
    gone = await begin(organization, "word")
    await fill(organization, 800)
    assert await compression.train(organization.tenant)
    kept = await begin(organization, *(sentence(number) for number in range(20)))
    before = await read_texts(organization, kept)
    await organization.trash.trash_conversation(kept, actor=ACTOR, keep=timedelta(days=30))

    await erase(organization, ErasureRequest(conversation_id=gone))
    await organization.trash.restore(kept, actor=ACTOR)

    assert await read_texts(organization, kept) == before
    assert await findings(organization) == []
