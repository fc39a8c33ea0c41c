"""Conversations, notes and a document, the same in every store, and questions about them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta

from bench.pairs import PAIRS
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.document import DocumentDraft
from engram.model.memory import Feedback, MemoryDraft
from engram.service import Service
from tests.fakes import FakeClock
from tests.service.bodies import stream

CONVERSATIONS = 12
MESSAGES = 40
NOTES = 40
TAGS = ("river", "harbour")
AGENTS = ("scout", "clerk")
PROJECTS = ("default", "den")

_FREQUENT_FIRST = """
river lantern ledger orchard harbour winter bridge letter copper garden signal market silent engine
window shadow kettle meadow anchor violin tunnel castle pepper cellar branch mirror planned planning
plans Straße Grüße naïve café 東京 数据 v1.2.3 foo_bar don't re-use 2026 42 the a of and to is was not
in we they failed deploy disk full error retry timeout cache
"""
WORDS = _FREQUENT_FIRST.split()


async def store_corpus(service: Service, principal: Principal, clock: FakeClock) -> None:
    """Keep everything; the earlier half gets deep vectors, the later one has instant ones."""
    for number in range(CONVERSATIONS):
        await _converse(service, principal, number)
        clock.advance(timedelta(hours=1))
        if number == CONVERSATIONS // 2:
            await _remember(service, principal, seed=1)
            await _keep_document(service, principal)
            while await service.indexer.work(principal.organization_id):
                pass
    await _remember(service, principal, seed=2)
    await _unsay(service, principal)


def questions(count: int) -> Iterator[str]:
    """Yield questions: of one word and of many, of words that nobody said, and whole messages."""
    chance = random.Random(3)  # noqa: S311 - no secrets
    for number in range(count):
        match number % 5:
            case 0:
                yield chance.choice(WORDS)
            case 1:
                yield PAIRS[number].question
            case 2:
                yield PAIRS[number].message
            case 3:
                yield f"{_text(chance, 2)} nobodysaidthis"
            case _:
                yield _text(chance, 6)


async def _converse(service: Service, principal: Principal, number: int) -> None:
    draft = ConversationDraft(
        title=f"conversation {number}",
        agent_id=AGENTS[number % 2],
        project=PROJECTS[number % 3 == 0],
        tags=TAGS[: number % 3],
    )
    made = await service.conversations.create_conversation(principal, draft)
    messages = _messages(number)
    # Some come alone, most together, so that windows are closed in both ways.
    for part in (messages[:1], messages[1:9], messages[9:]):
        request = AppendRequest(conversation_id=made, messages=part)
        await service.conversations.append_messages(principal, request)


def _messages(number: int) -> tuple[MessageDraft, ...]:
    """Return a conversation's messages; some are very long, some said by each conversation."""
    chance = random.Random(number)  # noqa: S311 - no secrets
    texts = [_text(chance, chance.choice((1, 4, 9, 15, 30))) for _ in range(MESSAGES - 10)]
    texts += [pair.message for pair in PAIRS[number * 8 : number * 8 + 8]]
    texts += ["the harbour was silent", _text(chance, 400)]
    chance.shuffle(texts)
    return tuple(
        MessageDraft(role=chance.choice(("user", "assistant", "system")), content=text)
        for text in texts
    )


async def _remember(service: Service, principal: Principal, *, seed: int) -> None:
    chance = random.Random(f"notes {seed}")  # noqa: S311 - no secrets
    for number in range(NOTES):
        draft = MemoryDraft(
            content=f"{_text(chance, 12)} {seed}.{number}",
            project=PROJECTS[number % 2],
            tags=TAGS[: number % 3],
            importance=number % 5,
        )
        kept = await service.memories.store(principal, draft)
        memory_id = kept.memories[0].id
        if number % 7 == 0:
            await service.memories.feedback(principal, Feedback(memory_ids=(memory_id,)))
        if number % 11 == 0:
            await service.memories.forget(principal, memory_id)


async def _keep_document(service: Service, principal: Principal) -> None:
    chance = random.Random("document")  # noqa: S311 - no secrets
    text = "\n\n".join(f"## Part {part}\n\n{_text(chance, 200)}." for part in range(20))
    draft = DocumentDraft(name="parts.md", media_type="text/markdown")
    await service.documents.store_stream(principal, draft, stream(text.encode()))


async def _unsay(service: Service, principal: Principal) -> None:
    """Delete a conversation whose words counted."""
    draft = ConversationDraft(title="gone")
    made = await service.conversations.create_conversation(principal, draft)
    request = AppendRequest(conversation_id=made, messages=_messages(99))
    await service.conversations.append_messages(principal, request)
    await service.conversations.delete_conversation(principal, made)


def _text(chance: random.Random, words: int) -> str:
    """Return so many words."""
    return " ".join(WORDS[int(len(WORDS) * chance.random() ** 2)] for _ in range(words))
