"""Conversations and messages over REST."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest
from dirty_equals import IsPartialDict, IsStr
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import append, new_conversation, refusal, stored

VERBATIM = ["", "\x00", "a\rb", "\x1b[31mred\x1b[0m", "zwei\r\n\tZeilen ", "日本 🦝", "'; DROP --"]


async def test_a_conversation_begins_empty_with_what_it_was_given(api: httpx.AsyncClient) -> None:
    draft = {"title": "Plans", "agent_id": "helper", "tags": ["a", "b"], "metadata": {"n": 1}}

    made = await api.post("/api/v1/conversations", json=draft)

    assert made.status_code == 201
    read = (await api.get(f"/api/v1/conversations/{made.json()['conversation_id']}")).json()
    assert read["conversation"] == IsPartialDict({**draft, "project": "default"})
    assert (read["messages"], read["total"], read["next_offset"]) == ([], 0, None)


async def test_a_conversation_needs_no_body_at_all(api: httpx.AsyncClient) -> None:
    made = await api.post("/api/v1/conversations")

    assert made.json() == {"conversation_id": IsStr(regex="conv_.{21}")}


@promise("verbatim")
@pytest.mark.parametrize("content", VERBATIM)
async def test_messages_come_back_byte_for_byte(api: httpx.AsyncClient, content: str) -> None:
    conversation_id = await new_conversation(api)

    await append(api, conversation_id, content)

    read = await api.get(f"/api/v1/conversations/{conversation_id}")
    assert [message["content"] for message in read.json()["messages"]] == [content]


async def test_appending_answers_with_ids_and_sequences(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, "one")

    appended = await append(api, conversation_id, "two", "three")

    assert appended.status_code == 200
    assert appended.json() == {
        "conversation_id": conversation_id,
        "appended": 2,
        "message_ids": [IsStr(regex="msg_.{21}"), IsStr(regex="msg_.{21}")],
        "first_sequence": 2,
        "last_sequence": 3,
        "indexed": 2,
    }


@promise("verbatim")
async def test_every_field_of_a_message_is_kept(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api)
    message = {
        "role": "tool",
        "content": "42",
        "name": "calculator",
        "tool_call_id": "call_1",
        "tool_name": "add",
        "occurred_at": "2026-01-02T03:04:05.678901Z",
        "metadata": {"huge": 2**80, "nested": {"list": [1, 2.5, None, True, "é"]}},
    }
    path = f"/api/v1/conversations/{conversation_id}"

    await api.post(f"{path}/messages", json={"messages": [message]})

    assert (await api.get(path)).json()["messages"] == [IsPartialDict(message)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)  # fmt: skip


@promise("verbatim")
@given(content=st.text(), metadata=st.dictionaries(st.text(), json_values, max_size=3))
async def test_any_text_and_any_metadata_come_back_as_they_were(
    api: httpx.AsyncClient, content: str, metadata: dict[str, object]
) -> None:
    path = f"/api/v1/conversations/{await new_conversation(api, metadata=metadata)}"
    message = {"role": "user", "content": content, "metadata": metadata}

    await api.post(f"{path}/messages", json={"messages": [message]})

    read = (await api.get(path)).json()
    assert read["conversation"]["metadata"] == metadata
    assert read["messages"] == [IsPartialDict(message)]


async def test_a_page_says_where_the_next_begins(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, *map(str, range(7)))
    path = f"/api/v1/conversations/{conversation_id}"

    page = (await api.get(path, params={"message_limit": 3, "message_offset": 2})).json()

    assert [message["content"] for message in page["messages"]] == ["2", "3", "4"]
    assert (page["total"], page["next_offset"]) == (7, 5)


async def test_a_page_can_be_centred_on_a_message(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, *map(str, range(1, 10)))
    path = f"/api/v1/conversations/{conversation_id}"

    page = (await api.get(path, params={"message_limit": 3, "around_sequence": 5})).json()

    assert [message["sequence"] for message in page["messages"]] == [4, 5, 6]


async def test_messages_without_a_conversation_go_to_the_default_one(
    api: httpx.AsyncClient,
) -> None:
    body = {"messages": [{"role": "user", "content": "remember me"}]}

    first, second = [(await api.post("/api/v1/messages", json=body)).json() for _ in range(2)]

    assert first["conversation_id"] == second["conversation_id"]
    listed = (await api.get("/api/v1/conversations")).json()["conversations"]
    assert [(item["title"], item["message_count"]) for item in listed] == [("Memory", 2)]


async def test_messages_may_name_their_conversation_in_the_body(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api)
    messages = [{"role": "user", "content": "here"}]
    body = {"conversation_id": conversation_id, "messages": messages}

    appended = await api.post("/api/v1/messages", json=body)

    assert appended.json()["conversation_id"] == conversation_id


@promise("idempotent")
async def test_a_repeated_idempotency_key_returns_the_first_answer(api: httpx.AsyncClient) -> None:
    path = f"/api/v1/conversations/{await new_conversation(api)}/messages"
    body = {"messages": [{"role": "user", "content": "once"}], "idempotency_key": "k"}

    first, second = [(await api.post(path, json=body)).json() for _ in range(2)]

    assert first == second
    assert await stored(api) == (1, 1)


async def test_conversations_are_listed_under_all_filters_with_their_true_total(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    for number in range(3):
        clock.advance(timedelta(seconds=1))
        await new_conversation(api, title=f"t{number}", tags=["x", "y"], project="p")
    await new_conversation(api, title="other", tags=["x"], project="p")

    params = {"tags": ["x", "y"], "project": "p", "limit": 2, "sort": "created_at", "order": "asc"}
    page = (await api.get("/api/v1/conversations", params=params)).json()

    assert [item["title"] for item in page["conversations"]] == ["t0", "t1"]
    assert (page["total"], page["next_offset"]) == (3, 2)


@promise("removal")
async def test_a_deleted_conversation_is_gone_and_its_receipt_names_what_went(
    api: httpx.AsyncClient,
) -> None:
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, "tanuki", "river")

    deleted = await api.delete(f"/api/v1/conversations/{conversation_id}")

    assert deleted.json() == {
        "deleted": True,
        "messages": 2,
        "chunks": 1,
        "vectors": 0,
        "receipt": IsStr(regex="aud_.{21}"),
    }
    again = await api.delete(f"/api/v1/conversations/{conversation_id}")
    assert refusal(again) == (404, "not_found", None)
    found = await api.post("/api/v1/search", json={"query": "tanuki"})
    assert found.json()["results"] == []


@promise("idempotent")
async def test_another_body_under_the_same_idempotency_key_is_a_conflict(
    api: httpx.AsyncClient,
) -> None:
    path = f"/api/v1/conversations/{await new_conversation(api)}/messages"
    body = {"messages": [{"role": "user", "content": "once"}], "idempotency_key": "k"}
    await api.post(path, json=body)

    another = await api.post(path, json={**body, "messages": [{"role": "user", "content": "two"}]})
    to_default = await api.post("/api/v1/messages", json=body)

    assert refusal(another) == (409, "idempotency_conflict", None)
    assert refusal(to_default) == (409, "idempotency_conflict", None)
    assert await stored(api) == (1, 1)


async def test_a_conversation_is_renamed_tagged_and_moved(api: httpx.AsyncClient) -> None:
    conversation_id = await new_conversation(api, title="Plans", tags=["a"], agent_id="helper")
    await append(api, conversation_id, "the ferry leaves at nine")
    change = {"title": None, "tags": ["b"], "metadata": {"n": 2}, "project": "harbour"}

    edited = await api.patch(f"/api/v1/conversations/{conversation_id}", json=change)

    assert edited.status_code == 200
    assert edited.json() == {
        "conversation_id": conversation_id,
        "edited": sorted(change),
        "updated_at": IsStr,
    }
    read = (await api.get(f"/api/v1/conversations/{conversation_id}")).json()
    assert read["conversation"] == IsPartialDict({**change, "agent_id": "helper"})
    found = await api.post("/api/v1/search", json={"query": "ferry", "project": "harbour"})
    assert [each["tags"] for each in found.json()["results"]] == [["b"]]


@pytest.mark.parametrize(
    ("change", "field"), [({}, None), ({"agent_id": "x"}, "agent_id"), ({"tags": "x"}, "tags")]
)
async def test_an_edit_that_says_nothing_or_too_much_is_refused(
    api: httpx.AsyncClient, change: dict[str, object], field: str | None
) -> None:
    conversation_id = await new_conversation(api)

    refused = await api.patch(f"/api/v1/conversations/{conversation_id}", json=change)

    assert refusal(refused) == (400, "invalid_request", field)


async def test_a_conversation_of_others_cannot_be_edited(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    conversation_id = await new_conversation(api, title="Plans")

    refused = await stranger.patch(f"/api/v1/conversations/{conversation_id}", json={"title": "x"})

    assert refusal(refused) == (404, "not_found", None)
