"""What a client learns when something fails that nobody expected, and what it may call."""

from __future__ import annotations

import logging
from copy import copy

import pytest
from mcp import Client

from engram.errors import StorageError, StoreBusyError
from engram.mcp.server import Caller, build_server
from engram.model.access import TOOLSETS, Principal, Toolset
from engram.model.search import SearchAnswer, SearchRequest
from engram.service.search import Search
from tests.mcp.connecting import RunningServer, call, refusal, text_of
from tests.promises import promise


class FailingSearch(Search):
    """A search that always fails in the same way."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    async def search(self, principal: Principal, request: SearchRequest) -> SearchAnswer:  # noqa: ARG002 the use case's signature
        raise self._failure


async def client_with(
    server: RunningServer,
    *,
    failure: Exception | None = None,
    toolsets: tuple[Toolset, ...] = TOOLSETS,
) -> Client:
    """Return a client of a server in this process, whose search may fail."""
    service = server.service
    if failure is not None:
        service = copy(service)
        service.search = FailingSearch(failure)
    caller = Caller(await service.access.authenticate(server.key), toolsets)
    return Client(build_server(service, lambda _request: caller))


async def test_an_unexpected_failure_is_masked_and_logged(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with await client_with(server, failure=RuntimeError("/secret/path")) as client:
        result = await client.call_tool("search", {"query": "q"})

    assert result.is_error
    assert text_of(result).startswith("internal_error: ")
    assert "secret" not in text_of(result)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "search" in record.getMessage()
    assert record.exc_info is not None


@promise("clear")
@pytest.mark.parametrize("failure", [StorageError(), StoreBusyError()])
async def test_a_failure_of_the_store_has_its_code(
    server: RunningServer, failure: StorageError
) -> None:
    async with await client_with(server, failure=failure) as client:
        facts = await refusal(client, "search", query="q")

    assert facts == {"code": failure.code}


async def test_a_tool_of_a_hidden_toolset_can_be_called(server: RunningServer) -> None:
    async with await client_with(server, toolsets=()) as client:
        listed = await client.list_tools()
        answer = await call(client, "list_conversations")

    assert listed.tools == []
    assert answer["total"] == 0
