"""Damage done by hand to vectors in an SQLite file: each kind is found and mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import StoreCorruptError
from engram.model.conversation import AppendRequest
from engram.model.ids import ConversationId, MessageKey
from engram.model.row_keys import message_key
from engram.model.value import replace
from engram.model.vectors import Embedded, Indexing
from engram.storage.organization import OrganizationStore
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, begin, damage, drafts, findings, on_sqlite
from tests.storage.embedded import (
    DEEP,
    QUICK,
    append_meant,
    embed_waiting,
    indexing_of,
    nearest,
    whole_of,
)

pytestmark = promise("one-truth")

LONG = "a text that is long enough to have four passages, each with a vector"
"""Message 5: with message 6, the only one with instant vectors alone."""

DAMAGE = {
    "deep vectors of nothing": "UPDATE vector SET key = 77 << 24 WHERE seq % 3 = 0",
    "instant vectors of nothing": "UPDATE instant_vector SET key = key + 100",
    "vectors of both tiers": """
        INSERT INTO instant_vector (seq, organization_id, embedder, key,
        start_character, end_character, content)
        SELECT seq + 1000, 1, 1, key, 0, 1, zeroblob(13) FROM vector
        WHERE key = (1 << 24) + 1""",
    "instant vectors beside deep ones": """
        INSERT INTO vector (seq, organization_id, embedder, key,
        start_character, end_character, content)
        SELECT seq + 1000, 1, 2, key, 0, 5, zeroblob(21) FROM instant_vector
        WHERE key = (1 << 24) + 6""",
    "a passage too many": """
        INSERT INTO vector (seq, organization_id, embedder, key,
        start_character, end_character, content)
        SELECT seq + 1000, 1, embedder, key, 7, end_character, content
        FROM vector WHERE start_character = 0 AND key = (1 << 24) + 3""",
    "passages that overlap": "UPDATE vector SET end_character = 30 WHERE end_character = 20",
    "an instant passage that overlaps": """
        UPDATE instant_vector SET end_character = 30 WHERE end_character = 20""",
    "a passage that is missing": "DELETE FROM vector WHERE start_character = 20",
    "an instant passage that is missing": """
        DELETE FROM instant_vector WHERE start_character = 0 AND key = (1 << 24) + 5""",
    "an end that is missing": "DELETE FROM vector WHERE start_character = 60",
    "a passage past the end": """
        UPDATE vector SET end_character = 999 WHERE key = (1 << 24) + 1""",
    "an instant passage past the end": """
        UPDATE instant_vector SET end_character = 999 WHERE key = (1 << 24) + 6""",
    "a vector that is too short": "UPDATE vector SET content = substr(content, 1, 20)",
    "an instant vector that is too long": """
        UPDATE instant_vector SET content = CAST(content || x'00' AS BLOB)""",
    "a vector of another version": """
        UPDATE vector SET content = CAST(x'02' || substr(content, 2) AS BLOB)""",
    "a vector without a scale": """
        UPDATE vector SET content = CAST(x'0100000000' || substr(content, 6) AS BLOB)""",
    "a vector with a negative scale": """
        UPDATE vector SET content = CAST(x'01000000bf' || substr(content, 6) AS BLOB)""",
    "a vector with an endless scale": """
        UPDATE vector SET content = CAST(x'010000807f' || substr(content, 6) AS BLOB)""",
    "a vector whose scale is no number": """
        UPDATE vector SET content = CAST(x'010000c07f' || substr(content, 6) AS BLOB)""",
    "a vector of an unknown embedder": "UPDATE vector SET embedder = 9 WHERE seq % 2 = 0",
    "instant vectors of an unknown embedder": "UPDATE instant_vector SET embedder = 9",
    "deep vectors of the instant embedder": "UPDATE vector SET embedder = 1",
    "instant vectors of the deep embedder": "UPDATE instant_vector SET embedder = 2",
    "no vectors of a message": "DELETE FROM vector WHERE key = (1 << 24) + 2",
    "no deep vectors at all": "DELETE FROM vector",
    "nobody waiting": "DELETE FROM unembedded",
    "waiting of nothing": "INSERT INTO unembedded (organization_id, key) VALUES (1, 12345)",
    "waiting in vain": """
        INSERT INTO unembedded (organization_id, key) VALUES (1, (1 << 24) + 1)""",
    "waiting half leased": "UPDATE unembedded SET lease_owner = 'me'",
    "waiting with a past": "UPDATE unembedded SET attempts = -1",
    "a state that is behind": "UPDATE vector_state SET seq = 3",
    "a state that has forgotten the future": "UPDATE vector_state SET forgotten = seq + 1",
    "no state": "DELETE FROM vector_state",
}

DAMAGED_SENTENCES = {
    "the first sentence is missing": "DELETE FROM vector WHERE end_character = 20",
    "a sentence is missing": "DELETE FROM vector WHERE start_character = 20",
    "the last sentence is missing": "DELETE FROM vector WHERE start_character = 60",
    "a whole that ends early": """
        UPDATE vector SET end_character = 67 WHERE end_character - start_character = 68""",
}

MISCOUNTED = {
    "vectors": "UPDATE counters SET vectors = vectors + 1",
    "waiting messages": "UPDATE counters SET pending = 0",
}


@pytest.fixture
async def meant(organization: OrganizationStore) -> OrganizationStore:
    """Fill the store: messages 1 to 4 have deep vectors, 5 and 6 instant ones."""
    conversation_id = await append_meant(organization, "apple", "pear", LONG, "")
    await embed_waiting(organization)
    await append_meant(organization, LONG, "cherry", to=conversation_id)
    return organization


def key_of(sequence: int) -> MessageKey:
    return message_key(1, sequence)


async def test_a_store_with_vectors_gives_no_findings(meant: OrganizationStore) -> None:
    assert await findings(meant) == []
    assert await meant.repair() == 0

    counters, coverage = await meant.counters(), await meant.coverage()
    assert (counters.vectors, counters.pending) == (7 + 5, 2)
    assert (coverage.messages_deep, coverage.messages_instant) == (4, 2)
    assert coverage.messages_without_vector == 0


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_to_vectors_is_found_and_mended(
    meant: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    assert await nearest(elsewhere, "apple") == key_of(1)
    damage(tmp_path, meant, DAMAGE[kind])

    found = await findings(meant)
    assert "vectors" in {finding.check for finding in found}
    assert all(finding.repairable for finding in found)

    assert await meant.repair() == len(found)
    assert await findings(meant) == []
    while await embed_waiting(meant):
        pass
    assert await findings(meant) == []
    assert (await meant.coverage()).messages_deep == 6
    for organization in (meant, elsewhere):
        assert [await nearest(organization, text) for text in ("apple", "pear", "cherry")] == [
            key_of(1),
            key_of(2),
            key_of(6),
        ]


@pytest.fixture
async def divided(organization: OrganizationStore) -> OrganizationStore:
    """Fill the store: message 1 has a deep vector of the whole, and of its parts as sentences."""
    await append_meant(organization, LONG, tier="deep", identity=DEEP)
    embedded = Embedded(key=key_of(1), passages=[whole_of(LONG, DEEP)])
    assert await organization.add_missing_vectors(DEEP, [embedded]) == 1
    return organization


async def test_a_message_and_its_sentences_both_have_vectors(divided: OrganizationStore) -> None:
    assert await findings(divided) == []
    assert (await divided.counters()).vectors == 5
    assert (await divided.coverage()).messages_deep == 1


@pytest.mark.parametrize("kind", DAMAGED_SENTENCES)
async def test_damage_to_vectors_of_sentences_is_found_and_mended(
    divided: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    damage(tmp_path, divided, DAMAGED_SENTENCES[kind])

    assert "vectors" in {finding.check for finding in await findings(divided)}

    await divided.repair()
    assert await findings(divided) == []
    assert await embed_waiting(divided) == 1


@pytest.mark.parametrize("kind", MISCOUNTED)
async def test_counters_of_vectors_are_mended(
    meant: OrganizationStore, tmp_path: Path, kind: str
) -> None:
    before = await meant.counters()
    damage(tmp_path, meant, MISCOUNTED[kind])

    assert {finding.check for finding in await findings(meant)} == {"counters"}

    assert await meant.repair() == 1
    assert await meant.counters() == before


@on_sqlite
@pytest.mark.parametrize(
    "table", ["embedder", "vector", "instant_vector", "unembedded", "vector_removal"]
)
async def test_a_row_of_another_organisation_in_a_file_is_found(
    meant: OrganizationStore, tmp_path: Path, table: str
) -> None:
    await meant.delete_conversation(await append_other(meant), actor="test")
    damage(tmp_path, meant, f"UPDATE {table} SET organization_id = 99")  # noqa: S608 - fixed names

    assert ("file", False) in {
        (finding.check, finding.repairable) for finding in await findings(meant)
    }


async def test_a_message_whose_length_was_wrong_keeps_its_vectors(
    meant: OrganizationStore, tmp_path: Path
) -> None:
    damage(tmp_path, meant, "UPDATE message SET characters = 1 WHERE characters = 5")
    assert {finding.check for finding in await findings(meant)} == {"counters", "vectors"}

    await meant.repair()

    assert await findings(meant) == []
    assert (await meant.coverage()).messages_deep == 4


async def test_what_is_found_is_counted_and_not_listed(
    meant: OrganizationStore, tmp_path: Path
) -> None:
    damage(tmp_path, meant, "UPDATE vector SET content = x'00'")

    (finding,) = await findings(meant)

    assert finding.message == "7 vectors cannot be read"


async def test_instant_vectors_mended_away_leave_every_process(
    meant: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    async def found() -> MessageKey | None:
        return await nearest(elsewhere, "cherry", identity=QUICK, tier="instant")

    assert await found() == key_of(6)
    damage(tmp_path, meant, "UPDATE instant_vector SET end_character = 1, content = x'01'")

    await meant.repair()

    assert await found() is None
    assert (await meant.coverage()).messages_without_vector == 2


async def append_other(organization: OrganizationStore) -> ConversationId:
    conversation_id = await begin(organization)
    return await append_meant(organization, "plum", to=conversation_id)


async def test_a_message_that_came_without_deep_vectors_waits_though_others_had_them(
    organization: OrganizationStore,
) -> None:
    for _ in range(2):
        whole = indexing_of(["apple", LONG], tier="deep", identity=DEEP).vectors
        assert whole is not None
        cut = replace(whole, messages=[whole.messages[0], ()])
        request = AppendRequest(messages=drafts("apple", LONG))
        await organization.append_messages(
            request, actor=ACTOR, quota=UNBOUNDED, indexing=Indexing(vectors=cut)
        )

    assert await findings(organization) == []
    assert (await organization.counters()).pending == 2
    assert await embed_waiting(organization) == 2


async def test_without_the_state_of_its_vectors_a_store_says_that_it_is_damaged(
    meant: OrganizationStore, tmp_path: Path
) -> None:
    damage(tmp_path, meant, DAMAGE["no state"])

    with pytest.raises(StoreCorruptError):
        await nearest(meant, "apple")
    with pytest.raises(StoreCorruptError):
        await append_meant(meant, "plum")
