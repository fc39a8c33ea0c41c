"""Host and Origin: no web page and no borrowed name reaches the server."""

from __future__ import annotations

import re

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import ConfigurationError
from engram.http.asgi import Application, create_app
from engram.model.authority import host_of
from engram.model.value import replace
from engram.settings import Settings, load_settings
from tests.promises import promise
from tests.rest.calls import connect, refusal
from tests.serving import serving

pytestmark = promise("hosts")

PATHS = ["/healthz", "/api/v1/status", "/mcp", "/admin/stats", "/metrics", "/nowhere"]


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8788", "[::1]", "[::1]:80", "localhost:0",
        "localhost:65535", "[0:0:0:0:0:0:0:1]:8788",
    ],
)  # fmt: skip
async def test_loopback_names_are_served_on_any_port(anybody: httpx.AsyncClient, host: str) -> None:
    assert (await anybody.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8788", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", "", "[::1]evil.com"],
)  # fmt: skip
async def test_another_host_is_misdirected_on_every_route(
    anybody: httpx.AsyncClient, path: str, host: str
) -> None:
    answer = await anybody.get(path, headers={"Host": host})

    assert refusal(answer) == (421, "host_not_allowed", None)


MALFORMED = [
    "[::1]evil.com", "[::1]:80evil.com", "[::1].evil.com", "[::1]@evil.com", "[::1", "::1", "::1]", "[]",
    "[[::1]]", "[::1%25lo]", "[::1%lo]", "[127.0.0.1]", "[localhost]", "[::ffff:127.0.0.1]",
    "user@localhost", "user:pw@localhost", "localhost@evil.com", "localhost:80@evil.com",
    "localhost:", "localhost:65536", "localhost:99999", "localhost:000080", "localhost:-1",
    "localhost:+1", "localhost:80:80", "localhost:http", "localhost:²", "localhost:8 0",
    "localhost.", "localhost..", ".localhost", "127.0.0.1.", "127.1", "127.0.0.01", "0x7f.0.0.1", "2130706433",
    " localhost", "localhost ", "localhost\t", "localhost/", "localhost/x", "localhost?x", "localhost#x",
    "localhost\\evil.com", "localhost,evil.com", "localhost evil.com", "http://localhost", "//localhost",
    "l\u00f6calhost", "localhost\x00", "localhost%00", "%6cocalhost",
]  # fmt: skip
"""Spellings that some reader takes for a name of this machine, and others for another."""


@pytest.mark.parametrize("host", MALFORMED)
async def test_a_host_that_can_be_misread_is_refused(anybody: httpx.AsyncClient, host: str) -> None:
    answer = await anybody.get("/healthz", headers={b"Host": host.encode("latin-1")})

    assert refusal(answer) == (421, "host_not_allowed", None)


@pytest.mark.parametrize("host", MALFORMED)
async def test_an_origin_that_can_be_misread_is_refused(
    anybody: httpx.AsyncClient, host: str
) -> None:
    origin = f"http://{host}".encode("latin-1")

    answer = await anybody.get("/healthz", headers={b"Origin": origin})

    assert refusal(answer) == (403, "origin_not_allowed", None)


@pytest.mark.parametrize(
    "origin", ["localhost", "//localhost", "://localhost", "ht tp://localhost"]
)
async def test_an_origin_without_a_scheme_is_refused(
    anybody: httpx.AsyncClient, origin: str
) -> None:
    answer = await anybody.get("/healthz", headers={"Origin": origin})

    assert refusal(answer) == (403, "origin_not_allowed", None)


@given(before=st.text(max_size=8), after=st.text(max_size=8))
def test_nothing_around_an_address_is_ignored(before: str, after: str) -> None:
    is_port = re.fullmatch(r":[0-9]{1,5}", after, re.ASCII) is not None and int(after[1:]) < 65_536
    is_alone = not before and (not after or is_port)

    assert (host_of(f"{before}[::1]{after}") == "::1") == is_alone


@given(port=st.integers(min_value=0, max_value=10**6))
def test_a_port_is_below_65536(port: int) -> None:
    assert host_of(f"Localhost:{port}") == ("localhost" if port < 65_536 else None)


async def sent(port: int, request: bytes) -> bytes:
    """Return the beginning of the answer to `request`."""
    with anyio.fail_after(30):
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(request)
            return await stream.receive()


@pytest.mark.parametrize(
    ("hosts", "target", "status"),
    [
        (["localhost"], "/healthz", 200),
        (["evil.example"], "/healthz", 421),
        (["evil.example"], "http://localhost/healthz", 421),
        (["[::1]evil.com"], "/healthz", 421),
        (["localhost", "evil.example"], "/healthz", 421),
        (["evil.example", "localhost"], "/healthz", 421),
        (["localhost", "localhost"], "/healthz", 421),
        ([""], "/healthz", 421),
    ],
)
async def test_the_host_of_a_request_on_the_wire_is_checked(
    app: Application, hosts: list[str], target: str, status: int
) -> None:
    lines = [f"GET {target} HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close"]

    async with serving(app) as url:
        port = int(url.rsplit(":", 1)[1])
        answer = await sent(port, ("\r\n".join(lines) + "\r\n\r\n").encode())

    # A parser of HTTP may refuse the request before the application sees it.
    assert int(answer.split()[1]) in {status, 400 if status == 421 else status}


@pytest.mark.parametrize("name", ["https://memory.example.org", "a b", "user@host", "host:99999"])
def test_a_setting_that_names_no_host_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"allowed_hosts": name}, environment={})

    assert caught.value.setting == "ENGRAM_ALLOWED_HOSTS"


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
    named = replace(settings, allowed_hosts=("Memory.example.org",))

    answer = await answer_to(
        named, Host="memory.example.org:443", Origin="https://memory.example.org"
    )

    assert answer.status_code == 200


async def test_a_star_allows_every_name(settings: Settings) -> None:
    open_to_all = replace(settings, allowed_hosts=("*",))

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
    on_address = replace(settings, host=bound)

    assert (await answer_to(on_address, Host=host)).status_code == status
