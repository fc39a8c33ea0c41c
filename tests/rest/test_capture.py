"""Capture over REST: a session that is sent again stores nothing again."""

from __future__ import annotations

from typing import Any

import httpx

from tests.rest.calls import refusal


def session(*ids: str) -> dict[str, Any]:
    """Return a session whose messages say their own ids."""
    return {
        "source": "claude",
        "session": "s1",
        "conversation": {"title": "Ferry", "project": "harbour"},
        "messages": [{"role": "user", "content": each, "original_id": each} for each in ids],
    }


async def test_a_session_is_captured_once(api: httpx.AsyncClient) -> None:
    first = (await api.post("/api/v1/capture", json=session("a", "b"))).json()
    second = (await api.post("/api/v1/capture", json=session("a", "b", "c"))).json()

    name = first["conversation_id"]
    assert {"conversation_id": name, "stored": 2, "known": 0} == first
    assert {"conversation_id": name, "stored": 1, "known": 2} == second
    read = (await api.get(f"/api/v1/conversations/{name}")).json()
    assert ["a", "b", "c"] == [message["content"] for message in read["messages"]]
    assert "harbour" == read["conversation"]["project"]


async def test_a_deleted_session_is_not_captured_again(api: httpx.AsyncClient) -> None:
    first = (await api.post("/api/v1/capture", json=session("a"))).json()
    await api.delete(f"/api/v1/conversations/{first['conversation_id']}")

    again = (await api.post("/api/v1/capture", json=session("a", "b"))).json()

    assert (0, 2) == (again["stored"], again["forgotten"])


async def test_a_message_without_its_id_is_refused(api: httpx.AsyncClient) -> None:
    sent = session("a")
    del sent["messages"][0]["original_id"]

    answer = await api.post("/api/v1/capture", json=sent)

    assert (400, "invalid_request", "messages[0].original_id") == refusal(answer)
