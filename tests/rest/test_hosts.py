"""Host and Origin: no web page and no borrowed name reaches the server."""

from __future__ import annotations

import httpx
import pytest

from engram.settings import Settings
from engram.transport.asgi import Application, create_app
from tests.rest.calls import connect, refusal

PATHS = ["/healthz", "/api/v1/status", "/mcp", "/admin/stats", "/metrics", "/nowhere"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8788", "[::1]", "[::1]:80", "localhost:0"],
)
async def test_loopback_names_are_served_on_any_port(anybody: httpx.AsyncClient, host: str) -> None:
    assert (await anybody.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8788", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", ""],
)  # fmt: skip
async def test_another_host_is_misdirected_on_every_route(
    anybody: httpx.AsyncClient, path: str, host: str
) -> None:
    answer = await anybody.get(path, headers={"Host": host})

    assert refusal(answer) == (421, "host_not_allowed", None)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://localhost.evil.example", "file://", "http://["]
)  # fmt: skip
async def test_another_origin_is_refused_on_every_route(
    anybody: httpx.AsyncClient, path: str, origin: str
) -> None:
    answer = await anybody.post(path, headers={"Origin": origin})

    assert refusal(answer) == (403, "origin_not_allowed", None)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"])
async def test_a_local_origin_is_allowed(anybody: httpx.AsyncClient, origin: str) -> None:
    assert (await anybody.get("/healthz", headers={"Origin": origin})).status_code == 200


async def answer_to(settings: Settings, **headers: str) -> httpx.Response:
    app: Application = create_app(settings)
    async with app.lifespan(), connect(app) as client:
        return await client.get("/healthz", headers=headers)


async def test_a_configured_name_is_allowed_as_host_and_origin(settings: Settings) -> None:
    named = settings.model_copy(update={"allowed_hosts": ("Memory.example.org",)})

    answer = await answer_to(
        named, Host="memory.example.org:443", Origin="https://memory.example.org"
    )

    assert answer.status_code == 200


async def test_a_star_allows_every_name(settings: Settings) -> None:
    open_to_all = settings.model_copy(update={"allowed_hosts": ("*",)})

    assert (await answer_to(open_to_all, Host="anything.example")).status_code == 200


@pytest.mark.parametrize(
    ("bound", "host", "status"),
    [
        ("192.0.2.7", "192.0.2.7:8788", 200),
        ("2001:DB8::7", "[2001:db8::7]:8788", 200),
        ("0.0.0.0", "0.0.0.0:8788", 421),  # noqa: S104 - compared, not bound
        ("::", "[::]:8788", 421),
    ],
)
async def test_the_bound_address_is_a_name_of_the_server_unless_it_is_all_of_them(
    settings: Settings, bound: str, host: str, status: int
) -> None:
    on_address = settings.model_copy(update={"host": bound})

    assert (await answer_to(on_address, Host=host)).status_code == status
