"""Wrong credentials over HTTP: held up by address, and nobody else with them."""

from __future__ import annotations

import httpx
import pytest

from engram import limits
from engram.http.asgi import Application
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, connect, refusal, scoped_key

pytestmark = promise("rates")

ATTACKER = "10.6.6.6"
LIMITED = (429, "too_many_failed_logins", None)


async def guess(app: Application, path: str, tokens: list[str]) -> list[int]:
    """Return the statuses that an attacker sees."""
    async with connect(app, peer=ATTACKER) as client:
        return [
            (await client.get(path, headers={"Authorization": f"Bearer {token}"})).status_code
            for token in tokens
        ]


def wrong_keys(count: int) -> list[str]:
    return [f"engram_sk_live_{number:032}" for number in range(count)]


@pytest.mark.parametrize("path", ["/api/v1/status", "/mcp", "/admin/organizations", "/metrics"])
async def test_an_address_that_guesses_is_told_to_wait(app: Application, path: str) -> None:
    most = limits.FAILED_LOGINS_PER_ADDRESS_MAX

    statuses = await guess(app, path, wrong_keys(most + 3))
    async with connect(app, "engram_sk_live_" + "x" * 32, peer=ATTACKER) as client:
        refused = await client.get(path)

    assert statuses == [401] * most + [429] * 3
    assert refusal(refused) == LIMITED
    assert 1 <= int(refused.headers["retry-after"]) <= 60


async def test_a_key_in_use_is_served_from_the_very_address_that_guesses(
    app: Application, api: httpx.AsyncClient
) -> None:
    key = await scoped_key(api, "read")
    async with connect(app, key, peer=ATTACKER) as client:
        await client.get("/api/v1/status")
        await guess(app, "/api/v1/status", wrong_keys(50))

        assert (await client.get("/api/v1/status")).status_code == 200


async def test_a_key_never_seen_is_served_from_another_address(
    app: Application, api: httpx.AsyncClient
) -> None:
    key = await scoped_key(api, "read")
    await guess(app, "/api/v1/status", wrong_keys(50))

    async with connect(app, key, peer="10.0.0.1") as client:
        assert (await client.get("/api/v1/status")).status_code == 200


async def test_an_operators_token_cannot_be_guessed_past_the_limit(app: Application) -> None:
    await guess(app, "/admin/stats", [f"wrong {number}" for number in range(50)])

    async with connect(app, ADMIN_TOKEN, peer=ATTACKER) as client:
        assert refusal(await client.get("/admin/stats")) == LIMITED
    async with connect(app, ADMIN_TOKEN, peer="10.0.0.1") as client:
        assert (await client.get("/admin/stats")).status_code == 200


async def test_missing_and_malformed_credentials_count_for_nothing(app: Application) -> None:
    statuses = await guess(app, "/api/v1/status", ["", "x", ADMIN_TOKEN] * 20)

    assert set(statuses) == {401}
