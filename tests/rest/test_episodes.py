"""Episodes over REST."""

from __future__ import annotations

from datetime import timedelta

import httpx
from dirty_equals import IsPartialDict, IsStr

from engram.http.asgi import Application
from tests.fakes import FakeClock
from tests.rest.calls import connect, refusal, scoped_key

EPISODES = "/api/v1/episodes"
MEMORIES = "/api/v1/memories"


async def test_an_episode_holds_the_memories_that_name_it(
    api: httpx.AsyncClient, clock: FakeClock
) -> None:
    begun = await api.post(EPISODES, json={"description": "the migration", "project": "apollo"})
    episode = begun.json()["episode_id"]
    memory = {"content": "step one", "project": "apollo", "episode_id": episode}
    await api.post(MEMORIES, json=memory)
    await api.post(MEMORIES, json={**memory, "content": "unrelated", "episode_id": None})
    clock.advance(timedelta(hours=1))

    ended = await api.post(
        f"{EPISODES}/{episode}/end", json={"project": "apollo", "summary": "it is done"}
    )
    read = (await api.get(f"{EPISODES}/{episode}", params={"project": "apollo"})).json()
    listed = (await api.get(EPISODES, params={"project": "apollo"})).json()

    assert begun.status_code == 201
    assert episode == IsStr(regex=r"ep_[\w-]{21}")
    assert ended.json() == IsPartialDict(summary="it is done", ended_at=IsStr(), memories=1)
    assert [each["content"] for each in read["memories"]] == ["step one"]
    assert (read["total"], read["episode"]) == (1, ended.json())
    assert listed == {"episodes": [ended.json()], "count": 1}


async def test_an_episode_is_unknown_elsewhere(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    episode = (await api.post(EPISODES)).json()["episode_id"]

    foreign = [
        await stranger.get(f"{EPISODES}/{episode}"),
        await stranger.post(f"{EPISODES}/{episode}/end"),
        await stranger.post(MEMORIES, json={"content": "x", "episode_id": episode}),
        await api.get(f"{EPISODES}/{episode}", params={"project": "apollo"}),
        await api.get(f"{EPISODES}/ep_unknown"),
    ]

    assert [refusal(each) for each in foreign] == [(404, "not_found", None)] * 5
    assert (await stranger.get(EPISODES)).json() == {"episodes": [], "count": 0}


async def test_episodes_need_their_scopes(app: Application, api: httpx.AsyncClient) -> None:
    async with connect(app, await scoped_key(api, "read")) as reader:
        begun = await reader.post(EPISODES)
        ended = await reader.post(f"{EPISODES}/ep_x/end")
    async with connect(app, await scoped_key(api, "write")) as writer:
        listed = await writer.get(EPISODES)
        read = await writer.get(f"{EPISODES}/ep_x")

    assert [each.json()["required"] for each in (begun, ended)] == ["write"] * 2
    assert [each.json()["required"] for each in (listed, read)] == ["read"] * 2
