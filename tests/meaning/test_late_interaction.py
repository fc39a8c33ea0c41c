"""Late interaction through the service: words are compared one by one, if that is switched on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.search import SearchRequest
from engram.service import Service
from engram.settings import Switch, load_settings
from engram.wiring import open_service

ASKED = "Which breed is the puppy that Maria adopted?"
ANSWER = "She came home from the shelter with a beagle, eight weeks old."
SAID = (
    "Maria has wanted a dog for years.",
    ANSWER,
    "Our heating is broken, and the plumber comes on Thursday.",
    "The train to Porto was late, so I missed the concert.",
)


async def store(home: Path, switch: Switch) -> None:
    """Store the messages with their deep vectors."""
    async with opened(home, switch) as service:
        me = await service.access.local_principal()
        messages = tuple(MessageDraft(role="user", content=text) for text in SAID)
        await service.conversations.append_messages(me, AppendRequest(messages=messages))
        await service.indexer.drain(me.organization_id, limit_s=60)


async def ask(home: Path, switch: Switch) -> dict[str, Mapping[str, float]]:
    """Return the values of all legs for every message that is found."""
    async with opened(home, switch) as service:
        me = await service.access.local_principal()
        request = SearchRequest(query=ASKED, min_score=0, explain=True)
        answer = await service.search.search(me, request)
    return {
        found.message.content: found.breakdown.legs
        for result in answer.results
        for found in result.messages
        if found.breakdown is not None
    }


def opened(home: Path, switch: Switch) -> AbstractAsyncContextManager[Service]:
    settings = load_settings({"home": home, "embedder": "local", "late_interaction": switch})
    return open_service(settings)


async def test_words_of_a_question_are_matched_with_those_of_messages(tmp_path: Path) -> None:
    await store(tmp_path, "on")

    legs = {text: values["token_vectors"] for text, values in (await ask(tmp_path, "on")).items()}

    assert legs.keys() == set(SAID)
    assert min(legs[SAID[0]], legs[ANSWER]) > legs[SAID[3]] + 0.1


@pytest.mark.parametrize(("stored", "asked"), [("off", "off"), ("off", "on"), ("on", "off")])
async def test_words_are_not_compared_unless_it_is_on_when_stored_and_when_asked(
    tmp_path: Path, stored: Switch, asked: Switch
) -> None:
    await store(tmp_path, stored)

    found = await ask(tmp_path, asked)

    assert found.keys() == set(SAID)
    assert not any("token_vectors" in legs for legs in found.values())
