"""Memories as a model reads them: a line each, within the budget, with what a later call needs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from engram.api.conversations import conversation_text
from engram.clock import SystemClock, format_time
from engram.mcp.tools import TOOLS
from engram.model.conversation import Conversation, Message, MessagePage
from engram.model.ids import ConversationId, MessageId
from engram.text.quoting import quote_after
from engram.text.tokens import count_tokens
from tests.fakes import SOME_DAY
from tests.mcp.connecting import call, in_process_client, refusal, text_of
from tests.promises import promise

CRANES = "The crane of the harbour is painted green, because the port authority asked for it. "
PLANTED = "港口的起重机是绿色的。"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    async with in_process_client(tmp_path) as connected:
        yield connected


async def store(client: Client, content: str, **fields: Any) -> str:
    return (await call(client, "memory_store", content=content, **fields))["id"]


async def read(client: Client, tool: str, **arguments: Any) -> str:
    """Return the text of a lean answer, which is all that is sent."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is None
    return text_of(result)


async def fill(client: Client) -> dict[str, dict[str, Any]]:
    """Store much of everything; return the arguments of every lean tool."""
    episode = await call(client, "memory_episode_start", description=CRANES * 5)
    for number in range(30):
        await call(client, "memory_episode_start", description=f"{number} {CRANES}")
    contents = [f"{number}. {(CRANES + PLANTED) * (1 + number % 9)}" for number in range(40)]
    batch = [{"content": each, "episode_id": episode["episode_id"]} for each in contents]
    stored = await call(client, "memory_store_batch", memories=batch)
    first = stored["ids"][0]
    for number in range(15):
        await call(client, "memory_correct", memory_id=first, content=f"{number} {CRANES * 3}")
        await store(client, "Of another project.", project=f"project {number} {'x' * 90}")
    document = await call(client, "memory_store_document", content=f"{CRANES}\n{PLANTED}\n" * 300)
    messages = [
        {"role": "user", "content": f"{number} {CRANES * (number % 5)}"} for number in range(60)
    ]
    kept = await call(client, "append_messages", messages=messages)
    for number in range(30):
        await call(client, "create_conversation", title=f"{number} {'title ' * 60}")
        gone = await call(client, "create_conversation", title=f"gone {number} {'title ' * 60}")
        await call(
            client, "delete_conversation", conversation_id=gone["conversation_id"], undo=True
        )
        await call(client, "store_note", content=f"{number} {CRANES * 5}")
    return {
        "search": {"query": "crane"},
        "get_conversation": {"conversation_id": kept["conversation_id"], "around_sequence": 30},
        "list_conversations": {"limit": 100},
        "fetch_context": {"query": "the crane of the harbour", "top_k": 10},
        "list_entries": {"limit": 50},
        "memory_recall": {
            "query": "harbour crane painted",
            "mode": "full",
            "record_event": True,
            "include_conflicts": True,
            "top_k": 40,
            "rerank": True,
        },
        "memory_query": {"query": "harbour crane painted", "mode": "full", "limit": 40},
        "memory_fetch": {"id": document["id"], "detail": "full"},
        "memory_list": {"limit": 100},
        "memory_history": {"memory_id": first},
        "memory_timeline": {"as_of": format_time(SystemClock().now()), "limit": 100},
        "memory_query_document": {
            "memory_id": document["id"],
            "question": "crane",
            "filter": {"substrings": ["crane"]},
        },
        "memory_projects": {},
        "memory_status": {},
        "memory_verify": {},
        "memory_dump": {},
        "memory_consolidate": {"dry_run": True},
        "trash_list": {"limit": 100},
        "memory_episode_list": {"limit": 100},
        "memory_episode_recall": {"episode_id": episode["episode_id"]},
    }


@promise("bounded")
async def test_every_lean_answer_fits_its_budget(client: Client) -> None:
    arguments = await fill(client)

    assert arguments.keys() == {tool.name for tool in TOOLS if tool.is_lean}
    for name, given_ in arguments.items():
        for token_budget in (100, 150, 400, 2_000):
            text = await read(client, name, **given_, token_budget=token_budget)

            assert text, (name, token_budget)
            assert count_tokens(text) <= token_budget, (name, token_budget, text)


@promise("bounded")
async def test_a_budget_that_cuts_says_so_and_where_to_go_on(client: Client) -> None:
    arguments = await fill(client)

    for name in arguments.keys() - {"search", "fetch_context", "memory_status", "memory_verify"}:
        if name == "memory_consolidate":
            continue
        last = (await read(client, name, **arguments[name], token_budget=150)).splitlines()[-1]

        assert re.search("token_budget|go on with|offset=", last), (name, last)


def test_reading_tools_of_all_toolsets_are_lean() -> None:
    reading = {tool.name for tool in TOOLS if tool.annotations.get("readOnlyHint")}
    reading.remove("memory_status_ping")  # it has nothing to cut

    assert reading <= {tool.name for tool in TOOLS if tool.is_lean}
    for tool in TOOLS:
        properties = tool.input_schema["properties"]
        assert ("format" in properties) == tool.is_lean
        assert "token_budget" in properties or not tool.is_lean


async def test_a_memory_is_one_line_with_what_is_not_usual(client: Client) -> None:
    usual = await store(client, "High tide comes at seven.")
    odd = await store(
        client, "The harbour\nopens at six.", memory_type="decision", importance=0, project="port"
    )

    listed = await read(client, "memory_list")
    elsewhere = await read(client, "memory_list", project="port")

    day = format_time(SystemClock().now())[:10]
    assert listed == f"{usual} {day} context: High tide comes at seven.\n1 of 1 memories"
    assert elsewhere.splitlines() == [
        f"{odd} {day} decision, critical, project port: The harbour",
        "| opens at six.",
        "1 of 1 memories",
    ]


async def test_a_recall_shows_what_supersedes_contradicts_and_is_connected(client: Client) -> None:
    old, new, other = [
        await store(client, f"The harbour opens at {hour}.") for hour in ("six", "seven", "eight")
    ]
    await call(client, "memory_connect", source_id=new, target_id=old, relation_type="supersedes")
    await call(
        client, "memory_connect", source_id=other, target_id=new, relation_type="contradicts"
    )

    text = await read(
        client,
        "memory_recall",
        query="the harbour opens",
        include_conflicts=True,
        include_relations=1,
        record_event=True,
    )

    assert re.search(r"^event_id=[0-9a-f-]{36}$", text, re.MULTILINE)
    assert re.search(f"^{old} .*superseded by {new}: The harbour opens at six", text, re.MULTILINE)
    assert re.search(f"^-> supersedes {old} ", text, re.MULTILINE)
    assert f"\n{other} contradicts {new}\n" in text


@promise("bounded")
async def test_a_recall_without_an_answer_costs_one_line(client: Client) -> None:
    padding = " ".join(f"word{number}" for number in range(300))
    memory_id = await store(client, f"The flight is late. {padding}")

    missed = await read(client, "memory_recall", query="which flight and hotel did Bo and Cy book")
    nothing = await read(client, "memory_recall", query="zanzibar")
    full = await call(client, "memory_recall", query="zanzibar")

    assert missed.startswith(f"nothing relevant; nearest: {memory_id} (memory_fetch reads them)")
    assert nothing == "nothing relevant; degraded: words_only"
    assert (full["handles"], full["note"]) == ([], "nothing relevant")


async def test_a_recalled_summary_that_leaves_something_out_is_marked(client: Client) -> None:
    await store(client, CRANES * 20)

    first, last = (await read(client, "memory_recall", query="crane harbour")).splitlines()

    assert first.endswith(" […]")
    assert 'memory_fetch(id, detail="full")' in last


async def test_a_memory_is_read_to_its_end_piece_by_piece(client: Client) -> None:
    content = "".join(f"{number}: {CRANES}{PLANTED}\n" for number in range(40))
    memory_id = await store(client, content)

    found, start = "", 0
    while start < len(content):
        text = await read(
            client,
            "memory_fetch",
            id=memory_id,
            detail="full",
            from_character=start,
            token_budget=400,
        )
        following = re.search(r"from_character=(\d+)$", text)
        end = int(following[1]) if following else len(content)
        assert quote_after(":", content[start:end])[1:] in text
        found, start = found + content[start:end], end

    assert found == content
    refused = await refusal(
        client, "memory_fetch", id=memory_id, detail="full", from_character=len(content) + 1
    )
    assert refused["field"] == "from_character"


async def test_history_and_timeline_go_on_at_an_offset(client: Client) -> None:
    memory_id = await store(client, "version 1")
    for number in range(2, 6):
        await call(client, "memory_correct", memory_id=memory_id, content=f"version {number}")
        await store(client, f"another memory {number}")

    first = await read(client, "memory_history", memory_id=memory_id, limit=3)
    rest = await read(client, "memory_history", memory_id=memory_id, limit=3, offset=3)
    as_of = format_time(SystemClock().now())
    pages = [
        await call(client, "memory_timeline", as_of=as_of, limit=3, offset=offset)
        for offset in (0, 3)
    ]

    assert first.endswith("\n3 of 4 earlier versions; go on with offset=3")
    assert rest.splitlines()[0].endswith(": version 4")
    ids = [memory["id"] for page in pages for memory in page["memories"]]
    assert len(set(ids)) == len(ids) == 5
    assert [page.get("next_offset") for page in pages] == [3, None]


async def test_around_a_message_those_nearest_to_it_are_shown(client: Client) -> None:
    messages = [{"role": "user", "content": f"{number} {CRANES}"} for number in range(1, 61)]
    kept = await call(client, "append_messages", messages=messages)

    text = await read(
        client,
        "get_conversation",
        conversation_id=kept["conversation_id"],
        around_sequence=30,
        token_budget=250,
    )

    shown = [int(number) for number in re.findall(r"^#(\d+) ", text, re.MULTILINE)]
    assert shown == list(range(shown[0], shown[-1] + 1))
    assert shown[0] < 30 < shown[-1]
    last = f"earlier: around_sequence={shown[0] - 1}; go on with message_offset={shown[-1]}"
    assert text.endswith(last)


def a_page(content: str, *, start: int) -> MessagePage:
    conversation = Conversation(
        id=ConversationId("conv_1"),
        title="Harbour",
        agent_id=None,
        project="default",
        tags=(),
        metadata={},
        message_count=1,
        created_at=SOME_DAY,
        updated_at=SOME_DAY,
    )
    message = Message(
        id=MessageId("msg_1"),
        sequence=1,
        role="user",
        content=content[start:],
        created_at=SOME_DAY,
    )
    return MessagePage(
        conversation=conversation,
        messages=(message,),
        total=1,
        next_offset=None,
        from_character=start,
        around_sequence=1,
    )


LONG = st.lists(
    st.one_of(st.sampled_from([CRANES, PLANTED, "\n", "x" * 200]), st.text(max_size=80)),
    min_size=1,
    max_size=60,
).map("".join)


@promise("verbatim")
@given(content=LONG, token_budget=st.integers(400, 900))
def test_pieces_of_a_long_message_join_back_to_it(content: str, token_budget: int) -> None:
    pieces, start = list[str](), 0
    while True:
        text = conversation_text(a_page(content, start=start), token_budget)
        assert count_tokens(text) <= token_budget
        following = re.search(r"; go on with around_sequence=1, from_character=(\d+)\Z", text)
        end = int(following[1]) if following else len(content)
        assert quote_after(":", content[start:end])[1:] in text
        pieces.append(content[start:end])
        if following is None:
            break
        assert end > start
        start = end

    assert "".join(pieces) == content


@promise("verbatim")
async def test_the_rest_of_a_message_comes_verbatim(client: Client) -> None:
    content = "é\r\n\x00" + CRANES * 10
    messages = [{"role": "user", "content": text} for text in ("before", content, "after")]
    kept = await call(client, "append_messages", messages=messages)

    page = await call(
        client,
        "get_conversation",
        conversation_id=kept["conversation_id"],
        around_sequence=2,
        from_character=3,
    )
    refused = await refusal(
        client,
        "get_conversation",
        conversation_id=kept["conversation_id"],
        message_offset=1,
        from_character=len(content) + 1,
    )

    assert [message["content"] for message in page["messages"]] == [content[3:], "after"]
    assert refused["field"] == "from_character"
