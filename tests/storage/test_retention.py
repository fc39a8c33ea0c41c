"""The contract of retention: what is too old goes, the most specific rule counts, and holds are stronger."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engram.errors import HeldError, NotFoundError
from engram.model.access import SYSTEM
from engram.model.conversation import ConversationChange, ConversationQuery
from engram.model.ids import ConversationId
from engram.model.memory import MemoryDraft
from engram.model.request import parse
from engram.model.retention import HoldDraft, RetentionDraft, RetentionReport
from engram.model.search import Kind
from engram.model.trash import TrashQuery
from engram.service.work.retention import apply_rules
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage import document_drafts, memory_drafts
from tests.storage.drafts import ACTOR, append, begin, findings

pytestmark = promise("retention")

MONTH = timedelta(days=30)


async def rule(
    organization: OrganizationStore,
    keep: str,
    *,
    kind: Kind | None = None,
    project: str | None = None,
    source: str | None = None,
) -> str:
    draft = RetentionDraft(keep=keep, kind=kind, project=project, source=source)
    return (await organization.retention.set_rule(draft, actor=ACTOR)).id


async def run(organization: OrganizationStore, *, dry_run: bool = False) -> RetentionReport:
    return await apply_rules(organization, actor=SYSTEM, dry_run=dry_run, limit=None)


async def titles(organization: OrganizationStore) -> set[str | None]:
    page = await organization.list_conversations(ConversationQuery(limit=100))
    return {conversation.title for conversation in page.conversations}


async def test_what_has_not_changed_for_longer_than_its_rule_says_is_removed(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    old = await begin(organization, "one", "two", title="old")
    busy = await begin(organization, "one", title="busy")
    await memory_drafts.store(organization, MemoryDraft(content="an old note"))
    await document_drafts.store(organization, "# Old\n\nAn old document.")
    await rule(organization, "4w")
    clock.advance(timedelta(days=27))
    await append(organization, "still going", to=busy)
    early = await run(organization)
    clock.advance(timedelta(days=1))

    tried = await run(organization, dry_run=True)
    done = await run(organization)

    expected = RetentionReport(conversations=1, messages=2, notes=1, documents=1)
    assert (early, done) == (RetentionReport(), expected)
    assert tried == RetentionReport(conversations=1, messages=2, notes=1, documents=1, dry_run=True)
    assert await titles(organization) == {"busy"}
    assert (await organization.trash.list(TrashQuery())).total == 0
    audited = await organization.list_audit(limit=3, before=None)
    assert {(entry.actor, entry.subject) for entry in audited} >= {(SYSTEM, old)}
    assert await findings(organization) == []


async def test_the_most_specific_rule_counts_and_the_shortest_of_equals(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    for project in ("scratch", "books", "default"):
        await begin(organization, "text", title=project, project=project)
    await begin(organization, "text", title="imported", agent_id="claude", project="books")
    await rule(organization, "10d", kind="conversation")
    await rule(organization, "1d", project="scratch")
    await rule(organization, "300d", kind="conversation", project="books")
    await rule(organization, "20d", source="claude", project="books")
    left = list[set[str | None]]()

    for days in (2, 9, 10, 280):
        clock.advance(timedelta(days=days))
        await run(organization)
        left.append(await titles(organization))

    assert left == [
        {"books", "default", "imported"},
        {"books", "imported"},
        {"books"},
        set(),
    ]


async def test_a_rule_is_replaced_by_one_about_the_same_and_removed_by_its_id(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    first = await rule(organization, "90d", project="scratch")
    second = await rule(organization, "2w", project="scratch")

    listed = await organization.retention.list_rules()
    foreign = await other.retention.list_rules()
    with pytest.raises(NotFoundError):
        await other.retention.remove_rule(first, actor=ACTOR)
    await organization.retention.remove_rule(first, actor=ACTOR)

    assert (first, [each.keep_days for each in listed], foreign) == (second, [14], ())
    assert await organization.retention.list_rules() == ()
    assert await findings(organization) == []


async def test_a_turn_of_background_work_is_bounded_and_the_next_goes_on(
    organization: OrganizationStore, elsewhere: OrganizationStore, clock: FakeClock
) -> None:
    for number in range(5):
        await begin(organization, "text", title=str(number))
    await rule(organization, "1d")
    clock.advance(MONTH)

    turns = [
        await apply_rules(each, actor=SYSTEM, limit=2)
        for each in (organization, elsewhere, organization)
    ]

    assert [(turn.conversations, turn.is_complete) for turn in turns] == [
        (2, False),
        (2, False),
        (1, True),
    ]
    assert await titles(organization) == set()


@pytest.mark.parametrize(
    "on",
    [
        {"project": "harbour"},
        {"kind": "conversation"},
        {"source": "claude"},
        {"id": "{id}"},
        {},
    ],
    ids=str,
)
@promise("holds")
async def test_a_held_conversation_is_neither_deleted_nor_trashed_expired_or_purged(
    organization: OrganizationStore, clock: FakeClock, on: dict[str, str]
) -> None:
    held = await begin(organization, "one", title="held", agent_id="claude", project="harbour")
    thrown = await begin(organization, "two", title="thrown", agent_id="claude", project="harbour")
    await organization.trash.trash_conversation(thrown, actor=ACTOR, keep=timedelta(days=1))
    named = {name: value.format(id=held) for name, value in on.items()}
    draft = parse(HoldDraft, {"reason": "Smith v. Acme", **named})
    hold = await organization.retention.add_hold(draft, actor=ACTOR)
    await rule(organization, "1d")
    clock.advance(MONTH)

    for refused in (
        organization.delete_conversation(held, actor=ACTOR),
        organization.trash.trash_conversation(held, actor=ACTOR, keep=MONTH),
    ):
        with pytest.raises(HeldError, match=r"Smith v\. Acme") as error:
            await refused
        assert error.value.hold == hold.id
    report = await run(organization)
    purged = await organization.trash.purge_expired(actor=SYSTEM)
    if "id" not in on:
        with pytest.raises(HeldError):
            await organization.trash.purge(thrown, actor=ACTOR)

    assert (report.held, report.conversations) == (1, 0)
    assert purged.removed == (1 if "id" in on else 0)
    assert await titles(organization) == {"held"}
    await organization.retention.lift_hold(hold.id, actor=ACTOR)
    assert (await run(organization)).conversations == 1
    await organization.trash.purge_expired(actor=SYSTEM)
    assert (await organization.counters()).use == (0, 0)
    assert await findings(organization) == []


@promise("holds")
async def test_held_and_immutable_memories_stay(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    note, fixed = await memory_drafts.store(
        organization,
        MemoryDraft(content="a held note", source="mail"),
        MemoryDraft(content="an immutable note", immutable=True),
    )
    body = "".join(f"# Part {n}\n\nThe lighthouse keeper wrote line {n}.\n\n" for n in range(700))
    document = await document_drafts.store(organization, body)
    for draft in (
        HoldDraft(reason="letters", source="mail"),
        HoldDraft(reason="papers", kind="document"),
    ):
        await organization.retention.add_hold(draft, actor=ACTOR)
    await rule(organization, "1d")
    clock.advance(MONTH)

    for memory_id in (note.id, document.memory_id):
        with pytest.raises(HeldError):
            await organization.memories.purge(memory_id, actor=ACTOR, force=True)
        with pytest.raises(HeldError):
            await organization.trash.trash_memory(memory_id, actor=ACTOR, keep=MONTH, force=True)
    with pytest.raises(HeldError):
        await organization.memories.delete_project("default", actor=ACTOR)
    report = await run(organization)

    assert (report.held, report.immutable, report.notes, report.documents) == (2, 1, 0, 0)
    left = await organization.memories.get([note.id, fixed.id, document.memory_id])
    assert len(left) == 3
    assert await document_drafts.get(organization, document.id) == document
    assert await findings(organization) == []


@promise("holds")
async def test_nothing_leaves_a_project_that_is_held(organization: OrganizationStore) -> None:
    talk = await begin(organization, "held", project="north")
    (note,) = await memory_drafts.remember(organization, "held too", project="north")
    hold = HoldDraft(reason="Smith v. Acme", project="north")
    await organization.retention.add_hold(hold, actor=ACTOR)

    with pytest.raises(HeldError):
        await memory_drafts.correct(organization, note, to_project="south")
    change = ConversationChange(project="south")
    with pytest.raises(HeldError):
        await organization.edit_conversation(talk, change, actor=ACTOR)
    await memory_drafts.correct(organization, note, tags=("read",))

    memory = (await organization.memories.get([note]))[note]
    assert (memory.project, memory.tags) == ("north", ("read",))


@promise("holds")
async def test_a_hold_of_another_organisation_holds_nothing_here(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    hold = await other.retention.add_hold(HoldDraft(reason="theirs"), actor=ACTOR)
    conversation_id: ConversationId = await begin(organization, "one")

    await organization.delete_conversation(conversation_id, actor=ACTOR)

    with pytest.raises(NotFoundError):
        await organization.retention.lift_hold(hold.id, actor=ACTOR)
    assert await organization.retention.list_holds() == ()
