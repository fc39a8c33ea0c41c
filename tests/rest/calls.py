"""The words in which the REST tests speak."""

from __future__ import annotations

from typing import Any

import httpx

from engram.http.asgi import Application

URL = "http://127.0.0.1:8788"
ADMIN_TOKEN = "the-operators-token"


def connect(
    app: Application, token: str | None = None, *, peer: str = "127.0.0.1"
) -> httpx.AsyncClient:
    """Return a client of `app` that presents `token`."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(peer, 50_000))
    return httpx.AsyncClient(transport=transport, base_url=URL, headers=headers)


async def new_key(operator: httpx.AsyncClient, **draft: Any) -> str:
    """Return the first key of a new organisation."""
    made = await operator.post("/admin/organizations", json={"name": "acme", **draft})
    return made.json()["api_key"]


async def scoped_key(api: httpx.AsyncClient, *scopes: str) -> str:
    """Return a key of the same organisation that may do only this."""
    made = await api.post("/api/v1/keys", json={"name": "narrow", "scopes": scopes})
    return made.json()["key"]


async def new_conversation(api: httpx.AsyncClient, **draft: Any) -> str:
    made = await api.post("/api/v1/conversations", json=draft)
    return made.json()["conversation_id"]


async def append(api: httpx.AsyncClient, conversation_id: str, *contents: str) -> httpx.Response:
    messages = [{"role": "user", "content": content} for content in contents]
    path = f"/api/v1/conversations/{conversation_id}/messages"
    return await api.post(path, json={"messages": messages})


async def stored(api: httpx.AsyncClient) -> tuple[int, int]:
    """Return how many conversations and messages the organisation holds."""
    status = (await api.get("/api/v1/status")).json()
    return status["conversations"], status["messages"]


def refusal(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return the status, code and field of a problem."""
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["status"] == response.status_code
    return response.status_code, problem["code"], problem.get("field")
