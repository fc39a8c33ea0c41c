"""The contract of token vectors: they live and die with a message's own, and match words one by one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engram.errors import InvalidVectorError
from engram.limits import TOKEN_VECTOR_BYTES_MAX
from engram.model.ids import ConversationId, MessageKey
from engram.model.row_keys import message_key
from engram.model.search import Candidates
from engram.model.value import replace
from engram.model.vectors import Embedded
from engram.storage.organization import OrganizationStore
from tests.storage.drafts import ACTOR, begin, damage, findings, on_sqlite
from tests.storage.embedded import (
    DEEP,
    OTHER,
    OWNER,
    append_meant,
    asking_tokens,
    embed_waiting,
    reembed,
    whole_of,
    with_tokens,
)
from tests.storage.finding import find_candidates

TEXTS = ("the harbour opens early", "a kitten sleeps all day", "nothing of that kind")
FIRST = MessageKey(0)


def every_row(candidates: Candidates) -> NDArray[np.int64]:
    return np.arange(len(candidates.keys))


def embedded(sequence: int, *, conversation: int = 1) -> Embedded:
    text = TEXTS[sequence - 1]
    return Embedded(key=message_key(conversation, sequence), passages=[with_tokens(text, DEEP)])


async def matches(
    organization: OrganizationStore, text: str, *, identity: str = DEEP
) -> dict[MessageKey, float]:
    """Return how well the tokens of each message match a query, for those that were compared."""
    found = await find_candidates(
        organization, [], vectors=[asking_tokens(text, identity)], best=every_row
    )
    if found.token_match is None:
        return {}
    pairs = zip(found.keys.tolist(), found.token_match.tolist(), strict=True)
    return {MessageKey(key): match for key, match in pairs if not np.isnan(match)}


async def without_tokens(organization: OrganizationStore, *, identity: str = DEEP) -> list[int]:
    batch = await organization.read_without_tokens(
        identity, after=FIRST, limit=100, characters_max=1_000_000
    )
    return [message.key for message in batch.messages]


@pytest.fixture
async def conversation_id(organization: OrganizationStore) -> ConversationId:
    """Append messages that have instant vectors, and deep ones with tokens in their place."""
    appended = await append_meant(organization, *TEXTS)
    assert await organization.adopt_embedder(DEEP)
    await claim(organization)
    stored = [embedded(sequence) for sequence in (1, 2, 3)]
    assert await organization.store_vectors(DEEP, stored, owner=OWNER) == 3
    return appended


async def claim(organization: OrganizationStore) -> None:
    await organization.claim_unembedded(
        owner=OWNER, lease=timedelta(minutes=1), limit=100, characters_max=1_000_000
    )


@pytest.mark.usefixtures("conversation_id")
async def test_tokens_are_stored_with_the_vector_and_match_word_by_word(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    for store in (organization, elsewhere):
        found = await matches(store, "kitten harbour")

        assert found.keys() == {message_key(1, number) for number in (1, 2, 3)}
        assert found[message_key(1, 1)] > found[message_key(1, 3)]
        assert (await matches(store, "harbour"))[message_key(1, 1)] > 0.85
    assert await without_tokens(organization) == []
    assert await findings(organization) == []


@pytest.mark.usefixtures("conversation_id")
async def test_a_match_in_a_neighbour_counts_less_the_further_it_is(
    organization: OrganizationStore,
) -> None:
    found = await matches(organization, "harbour")

    own = found[message_key(1, 1)]
    assert found[message_key(1, 2)] == pytest.approx(0.9 * own)
    assert found[message_key(1, 3)] == pytest.approx(0.765 * own)


async def test_a_neighbour_in_another_conversation_does_not_count(
    organization: OrganizationStore,
) -> None:
    for text in TEXTS[:2]:
        await append_meant(organization, text, to=await begin(organization))
    assert await organization.adopt_embedder(DEEP)
    await claim(organization)
    stored = [
        Embedded(key=message_key(number, 1), passages=[with_tokens(text, DEEP)])
        for number, text in enumerate(TEXTS[:2], start=1)
    ]
    await organization.store_vectors(DEEP, stored, owner=OWNER)

    found = await matches(organization, "harbour")

    assert found[message_key(1, 1)] > 0.85
    assert found[message_key(2, 1)] < 0.5


async def test_messages_are_compared_only_if_they_and_the_query_have_tokens(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, *TEXTS)
    await embed_waiting(organization)

    assert await matches(organization, "harbour") == {}
    assert await matches(organization, "harbour", identity=OTHER) == {}
    assert await without_tokens(organization) == [message_key(1, 3)]

    await organization.add_missing_vectors(
        DEEP, [Embedded(key=message_key(1, 3), passages=[with_tokens(TEXTS[2], DEEP)])]
    )
    assert (await matches(organization, "nothing")).keys() == {message_key(1, 3)}


async def test_rows_that_are_not_among_the_best_are_not_compared(
    organization: OrganizationStore, conversation_id: ConversationId
) -> None:
    assert conversation_id
    found = await find_candidates(
        organization,
        [],
        vectors=[asking_tokens("harbour", DEEP)],
        best=lambda candidates: every_row(candidates)[1:2],
    )

    assert found.token_match is not None
    assert np.isnan(found.token_match).tolist() == [True, False, True]
    # The first message would match, and is not read.
    assert found.token_match[1] < 0.5


async def test_tokens_are_removed_with_their_conversation(
    organization: OrganizationStore, conversation_id: ConversationId
) -> None:
    await organization.delete_conversation(conversation_id, actor=ACTOR)

    assert await matches(organization, "harbour") == {}
    assert await findings(organization) == []


@pytest.mark.usefixtures("conversation_id")
async def test_tokens_are_given_up_with_the_embedder_they_come_from(
    organization: OrganizationStore,
) -> None:
    await reembed(organization, OTHER)
    await organization.drop_old_vectors()

    assert await matches(organization, "harbour") == {}
    assert await matches(organization, "harbour", identity=OTHER) == {}
    assert await findings(organization) == []


async def test_missing_tokens_are_added_once_to_the_vector_that_is_there(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, *TEXTS)
    assert await organization.adopt_embedder(DEEP)
    await claim(organization)
    whole = [
        Embedded(key=message_key(1, number), passages=[whole_of(text, DEEP)])
        for number, text in enumerate(TEXTS, start=1)
    ]
    await organization.store_vectors(DEEP, whole, owner=OWNER)
    counted = await organization.counters()
    assert await without_tokens(organization) == [each.key for each in whole]

    missing = Embedded(key=message_key(7, 1), passages=embedded(1).passages)
    added = await organization.add_missing_vectors(DEEP, [embedded(1), embedded(2), missing])
    again = await organization.add_missing_vectors(DEEP, [embedded(1), embedded(2)])

    assert (added, again) == (2, 0)
    assert await without_tokens(organization) == [message_key(1, 3)]
    assert await without_tokens(organization, identity=OTHER) == []
    assert (await matches(organization, "kitten"))[message_key(1, 2)] > 0.85
    assert await organization.counters() == counted
    assert await findings(organization) == []


@pytest.mark.parametrize("tokens", [b"", b"\1" + bytes(31), bytes(33), bytes(2_000)])
async def test_tokens_of_a_wrong_size_or_version_are_refused(
    organization: OrganizationStore, conversation_id: ConversationId, tokens: bytes
) -> None:
    assert conversation_id
    wrong = replace(with_tokens(TEXTS[0], DEEP), tokens=tokens)

    with pytest.raises(InvalidVectorError):
        await organization.add_missing_vectors(
            DEEP, [Embedded(key=message_key(1, 1), passages=[wrong])]
        )

    assert await findings(organization) == []


@on_sqlite
@pytest.mark.usefixtures("conversation_id")
@pytest.mark.parametrize(
    "tokens",
    ["x'01'", "x'00' || substr(tokens, 2)", "tokens || x'00'", f"x'01' || zeroblob({46 * 33})"],
)
async def test_tokens_that_cannot_be_read_are_found_and_made_again(
    organization: OrganizationStore, tmp_path: Path, tokens: str
) -> None:
    statement = f"UPDATE vector SET tokens = CAST({tokens} AS BLOB) WHERE key % 8 = 2"  # noqa: S608 of this test
    damage(tmp_path, organization, statement)

    (found,) = await findings(organization)
    assert (found.check, found.repairable) == ("vectors", True)

    await organization.repair()
    await claim(organization)
    assert await organization.store_vectors(DEEP, [embedded(2)], owner=OWNER) == 1
    assert await findings(organization) == []
    assert (await matches(organization, "kitten"))[message_key(1, 2)] > 0.85


def test_the_bound_of_a_message_holds_for_the_longest_text() -> None:
    tokens = with_tokens(" ".join(f"word{number}" for number in range(46)), DEEP).tokens

    assert tokens is not None
    assert len(tokens) <= TOKEN_VECTOR_BYTES_MAX
