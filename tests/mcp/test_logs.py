"""Whatever the level of the log, it does not hold what clients say."""

from __future__ import annotations

from tests.mcp.connecting import call, http_client, legacy_sse_client
from tests.promises import promise
from tools.server import running_server

pytestmark = promise("secrets")


async def test_the_log_of_a_server_does_not_hold_what_clients_say() -> None:
    message = {"role": "user", "content": "a confidential pangolin"}

    with running_server(LOG="debug") as server:
        key = server.create_organization("someone")
        async with http_client(server.url, key) as client:
            await call(client, "append_messages", messages=[message])
        async with legacy_sse_client(server.url, key) as client:
            await call(client, "append_messages", messages=[message])
            await call(client, "search", query="a confidential pangolin")
        log = (server.home.parent / "log").read_text()

    assert "POST /mcp" in log
    assert "pangolin" not in log
    assert key not in log
