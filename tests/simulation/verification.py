"""The final comparison of a whole store with the model, once nothing is at work any more."""

from __future__ import annotations

import random
from collections.abc import Sequence

from engram import limits
from engram.model.memory import Memory, MemoryQuery
from engram.model.status import Counters, Finding
from engram.service import Service
from tests.simulation.clients import Client, Installation
from tests.simulation.model import Tenant, demand

_WORDS_MAX = 12
"""Searches for stored words of each tenant."""


async def verify(
    installation: Installation,
    clients: Sequence[tuple[Tenant, Client]],
    chance: random.Random,
) -> None:
    """Compare everything that is stored with everything that is known."""
    for tenant, client in clients:
        messages = await _verify_conversations(tenant, client)
        memories = await _verify_memories(installation, tenant, client)
        counters = await _counters(installation, tenant)
        await _verify_counters(client, counters, messages=messages, memories=memories)
        await _verify_searches(tenant, client, chance)
        await _verify_documents(installation, tenant, client)
    findings = await installation.call(examine)
    demand(not findings, f"doctor finds {findings}")


async def examine(service: Service) -> list[Finding]:
    """Return everything that `engram doctor` would say."""
    return [
        finding
        for organization in await service.doctor.patients()
        async for finding in service.doctor.examine(organization)
    ]


async def _counters(installation: Installation, tenant: Tenant) -> Counters:
    status = await installation.call(lambda service: service.account.status(tenant.principal))
    return status.counters


async def _verify_conversations(tenant: Tenant, client: Client) -> int:
    """Read every conversation; return how many messages they have."""
    messages = 0
    for conversation in tenant.conversations.values():
        found = await client.read(conversation)
        demand(found is not None or conversation.deletion, f"{conversation.id} cannot be read")
        messages += found or 0
    listed = await client.list_conversations()
    demand(listed is not None, "conversations cannot be listed")
    assert listed is not None
    for conversation in tenant.conversations.values():
        is_there = conversation.deletion != "done"
        demand((conversation.id in listed) == is_there, f"{conversation.id} is listed wrongly")
    demand(sum(listed.values()) == messages, "the list counts other messages")
    return messages


async def _verify_memories(installation: Installation, tenant: Tenant, client: Client) -> set[str]:
    """Compare every memory; return the ids of those that are there."""
    query = MemoryQuery(limit=limits.MEMORY_PAGE_MAX)
    page = await installation.call(lambda service: service.memories.list(tenant.principal, query))
    listed: dict[str, Memory] = {memory.id: memory for memory in page.memories}
    demand(page.next_offset is None and page.total == len(listed), "memories are counted wrongly")
    for entry in tenant.memories.values():
        if entry.id in listed:
            demand(not entry.is_forgotten, f"{entry.id} was forgotten, and is still listed")
            entry.check(listed[entry.id])
        else:
            demand(None in entry.possible, f"{entry.id} is not listed")
            entry.possible = [None]
        await (client.fetch(entry) if entry.document_id is None else client.read_document(entry))
    strangers = [memory for id_, memory in listed.items() if id_ not in tenant.memories]
    documents = [memory for memory in strangers if memory.storage_mode == "document"]
    demand(len(documents) <= tenant.loose.get("document", 0), "there are documents of nobody")
    for memory in strangers:
        if memory.storage_mode != "document":
            room = tenant.loose.pop(memory.content, 0)
            demand(room, f"memory {memory.content[:60]!r} is nobody's, or twice there")
    return set(listed)


async def _verify_counters(
    client: Client, counters: Counters, *, messages: int, memories: set[str]
) -> None:
    listed = await client.list_conversations()
    demand(counters.conversations == len(listed or ()), "the counter of conversations is wrong")
    demand(counters.memories == len(memories), f"the counter of memories is wrong: {counters}")
    if not counters.documents:
        demand(
            counters.messages_of_conversations == messages,
            f"the counter of messages is wrong: {counters}, {messages}",
        )


async def _verify_searches(tenant: Tenant, client: Client, chance: random.Random) -> None:
    places = [
        (conversation, append, place)
        for conversation in tenant.conversations.values()
        if conversation.deletion is None
        for append in conversation.done
        for place, word in enumerate(append.words)
        if word
    ]
    for conversation, append, place in chance.sample(places, min(_WORDS_MAX, len(places))):
        await client.find(conversation, append, place)


async def _verify_documents(installation: Installation, tenant: Tenant, client: Client) -> None:
    """Demand that every document that is indexed is found by its word."""
    query = MemoryQuery(limit=limits.MEMORY_PAGE_MAX)
    page = await installation.call(lambda service: service.documents.list(tenant.principal, query))
    for each in page.documents:
        entry = tenant.memories.get(each.memory.id)
        if entry is None or each.document.state != "indexed":
            continue
        answer = await client.search(entry.possible[0] or "")
        found = {result.owner.id for result in answer.results} if answer else ()
        demand(entry.id in found, f"{each.document.id} is not found by {entry.possible[0]}")
