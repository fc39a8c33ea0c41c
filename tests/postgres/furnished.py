"""A store with something in every table, and what of it has to survive a move."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from engram.model.access import KeyDraft, OrganizationDraft
from engram.model.erasure import ErasureRequest
from engram.model.ids import OrganizationId
from engram.model.memory import Feedback, MemoryChange
from engram.model.retention import HoldDraft, RetentionDraft
from engram.storage.control.store import hash_secret
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from engram.text.analyse import query_terms
from tests.fakes import SOME_DAY
from tests.postgres.stores import new_organization
from tests.storage import document_drafts as documents
from tests.storage.captures import session
from tests.storage.deliveries import told
from tests.storage.drafts import ACTOR, UNBOUNDED, append, begin, find, findings, sentence
from tests.storage.embedded import append_meant, embed_waiting, nearest
from tests.storage.memory_drafts import note, relation, remember

TEXT = "# Tanuki\n\nTanuki are tricksters.\n\n" + "They drum on their bellies at night.\n" * 50
QUESTIONS = ("tanuki tricksters", "meaning memory", "disk deploy", "Straße", "drum belly")


@dataclass(frozen=True, slots=True)
class Furnished:
    """Whose things they are."""

    organization_id: OrganizationId
    secret: str
    """Of a key that is valid."""
    revoked: str
    """Of one that is not."""
    deleted: OrganizationId
    """An organisation that is gone, and spoken of in the audit."""


async def furnish(store: Store, *, messages: int = 280) -> Furnished:
    """Give a store an organisation with something of everything, one of nothing, and a lost one."""
    control = store.control
    local = await control.create_organization(
        OrganizationDraft(name="Häuser & Co"), actor=ACTOR, is_local=True
    )
    gone = await control.create_organization(OrganizationDraft(name="Gone"), actor=ACTOR)
    await store.organization(gone.id)
    await control.delete_organization(gone.id, actor=ACTOR)
    await control.create_organization(OrganizationDraft(name="Never opened"), actor=ACTOR)
    valid = await control.create_key(local.id, KeyDraft(name="one"), actor=ACTOR)
    revoked = await control.create_key(local.id, KeyDraft(name="two"), actor=ACTOR)
    await control.revoke_key(local.id, revoked.key.id, actor=ACTOR)
    await control.touch_keys({valid.key.id: SOME_DAY})
    organization = await store.organization(local.id)
    await add_conversations(organization, messages=messages)
    await add_captures(organization)
    await add_memories(organization)
    await add_documents(organization)
    await add_trash(organization)
    await add_erasure(organization)
    return Furnished(local.id, valid.secret, revoked.secret, gone.id)


async def add_conversations(organization: OrganizationStore, *, messages: int) -> None:
    """Add conversations: tagged, compressed, with vectors of both tiers, without, and removed."""
    await begin(organization, "Grüße aus der Straße", title="Ort", agent_id="cli", tags=("b", "a"))
    long = await begin(organization, project="long")
    for start in range(0, messages, 20):
        await append(organization, *long_texts(start, 20), to=long, key=f"part-{start}")
    if await organization.train_dictionary():
        await append(organization, *long_texts(messages, 5), to=long)
    removed = await append_meant(organization, "this one goes again")
    await embed_waiting(organization)
    await organization.delete_conversation(removed, actor=ACTOR)
    meant = await append_meant(organization, "the disk was full", "the deploy failed")
    await embed_waiting(organization, limit=1)
    await append_meant(organization, "all is well again", to=meant)
    await organization.enqueue_job("train_dictionary", "all")
    await organization.enqueue_job("purge", "some")
    await organization.claim_jobs(["purge"], owner="dead", lease=timedelta(hours=1), limit=1)


async def add_captures(organization: OrganizationStore) -> None:
    """Add sessions of another program, one that stays and one that was deleted, and a reminder."""
    await organization.record_deliveries(told("s1"))
    for name in ("kept", "deleted"):
        request = session("one", "two", name=name)
        await organization.capture_messages(request, actor=ACTOR, quota=UNBOUNDED)
    left = await organization.find_uncaptured(session("one", name="deleted"))
    await organization.delete_conversation(left.conversation_id, actor=ACTOR)


def long_texts(first: int, count: int) -> list[str]:
    """Return texts that are worth compressing."""
    numbers = range(first, first + count)
    return [f"{number} {sentence(number)} {sentence(-number - 1)}" for number in numbers]


async def add_memories(organization: OrganizationStore) -> None:
    """Add memories: related, corrected, forgotten, purged, praised, and within an episode."""
    memories = organization.memories
    episode = await memories.start_episode("den", "winter", actor=ACTOR)
    cause, effect = await remember(
        organization, "the disk was full", "the deploy failed", episode_id=episode, project="den"
    )
    await memories.connect(relation(effect, cause, "caused_by", strength=0.7), actor=ACTOR)
    for content in ("the deploy failed twice", sentence(3) * 5):
        change = MemoryChange(content=content, tags=("x", "y"))
        await memories.correct(effect, change, actor=ACTOR, quota=UNBOUNDED)
    feedback = Feedback(memory_ids=(cause,), helpful=True, event_id="evt", failure_class=None)
    await memories.record_feedback(feedback, actor=ACTOR)
    forgotten, purged = await note(organization, "outdated"), await note(organization, "secret")
    await memories.forget(forgotten, reason="old", actor=ACTOR, now=SOME_DAY)
    await memories.purge(purged, actor=ACTOR)
    await memories.end_episode(episode, summary="it was cold", actor=ACTOR)


async def add_documents(organization: OrganizationStore) -> None:
    """Add documents: one that is searched, one that cannot be, one that is half here."""
    await documents.store(organization, TEXT, name="tanuki.md", media_type="text/markdown")
    body = bytes(range(256)) * 2_000
    await documents.upload(organization, body, name="x.pdf", media_type=documents.PDF)
    begun = await documents.begin(organization, name="half.txt")
    await documents.send(organization, begun.id, b"the first part\n" * 1_000)


async def add_erasure(organization: OrganizationStore) -> None:
    """Add an erasure that has hidden a conversation, and not removed it yet."""
    hidden = await begin(organization, "is being erased")
    await organization.erasing.begin(ErasureRequest(conversation_id=hidden), actor=ACTOR)


async def add_trash(organization: OrganizationStore) -> None:
    """Add things that were deleted and can be restored, rules of retention and projects, and a legal hold."""
    rule, hold = RetentionDraft(keep="2y", project="den"), HoldDraft(reason="Grüße", project="held")
    await organization.retention.set_rule(rule, actor=ACTOR)
    await organization.retention.add_hold(hold, actor=ACTOR)
    await organization.projects.set_rule("~/den", "den", actor=ACTOR)
    await organization.projects.set_rule("Grüße", None, actor=ACTOR)
    await organization.projects.add_change_set("trash", {"memories": ["mem_1"]}, actor=ACTOR)
    trash, keep = organization.trash, timedelta(days=30)
    conversation = await append_meant(
        organization, "Straße in the trash", to=await begin(organization, title="Thrown away")
    )
    await embed_waiting(organization, limit=1)
    await trash.trash_conversation(conversation, actor=ACTOR, keep=keep)
    first, second = await remember(organization, "thrown away", "kept beside it")
    await organization.memories.connect(relation(first, second), actor=ACTOR)
    document = await documents.store(organization, TEXT.upper(), name="gone.md")
    for memory_id in (first, document.memory_id):
        await trash.trash_memory(memory_id, actor=ACTOR, keep=keep)


@dataclass(frozen=True, slots=True)
class Found:
    """What searches of a store find."""

    words: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]
    meaning: tuple[int | None, ...]


async def search(organization: OrganizationStore) -> Found:
    """Return what every question finds by words, with its scores, and what is nearest to it."""
    words = list[tuple[tuple[int, ...], tuple[float, ...]]]()
    for question in QUESTIONS:
        found = await find(organization, *query_terms(question))
        words.append((tuple(found.keys.tolist()), tuple(found.share_message.tolist())))
    meaning = [await nearest(organization, question) for question in QUESTIONS]
    return Found(tuple(words), tuple(meaning))


async def authenticates(store: Store, secret: str) -> bool:
    """Say whether a secret opens anything."""
    found = await store.control.find_key(hash_secret(secret))
    return found is not None and found.key.revoked_at is None


async def use_everything(store: Store) -> None:
    """Store, change, find, verify and delete something of everything."""
    organization = await new_organization(store)
    await begin(organization, "tanuki are tricksters", "foxes are too")
    await add_memories(organization)
    await add_documents(organization)
    await add_captures(organization)
    await search(organization)
    assert await findings(organization) == []
    await organization.repair()
    await store.control.delete_organization(organization.organization_id, actor=ACTOR)
