"""What the bridge answers by itself is what the server would have answered."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from engram.engine.greeting import FILES, Greeting, is_repeatable
from engram.model.access import TOOLSETS, Toolset
from tools.greetings import VERSIONS, greetings, requests_of, results_of

SUBSETS = [
    subset
    for size in range(1, len(TOOLSETS) + 1)
    for subset in itertools.combinations(TOOLSETS, size)
]
ALL_VERSIONS = [version for versions in VERSIONS.values() for version in versions]


async def test_the_files_hold_what_the_server_says_today() -> None:
    written = {path.stem: json.loads(path.read_bytes()) for path in FILES.glob("*.json")}

    assert written == await greetings(), "run `python -m tools.greetings`"


@pytest.mark.parametrize("version", ALL_VERSIONS)
@pytest.mark.parametrize("toolsets", [SUBSETS[0], ("memories", "notes"), SUBSETS[-1]])
async def test_every_answer_is_the_servers_own(version: str, toolsets: tuple[Toolset, ...]) -> None:
    greeting = Greeting(toolsets)

    answers = {method: answered(greeting, ask) for method, ask in requests_of(version).items()}

    assert answers == await results_of(version, toolsets)


def test_an_unknown_version_is_answered_with_the_newest_known_one() -> None:
    first = requests_of("2025-11-25")["initialize"]
    asked = {**first, "params": {**first["params"], "protocolVersion": "1999-01-01"}}

    assert answered(Greeting(TOOLSETS), asked)["protocolVersion"] == VERSIONS["handshake"][-1]


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "tools/list"},
        {"method": "resources/list"},
        {"method": "tools/list", "params": {"cursor": "10"}},
        {"method": "tools/list", "params": []},
        {"method": "initialize"},
        {"method": "initialize", "params": {"protocolVersion": 7}},
        {"method": ["tools/list"]},
        {"method": "server/discover", "params": {"_meta": {"x/protocolVersion": "2026-07-28"}}},
        {
            "method": "server/discover",
            "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}},
        },
    ],
)
def test_what_only_a_server_can_answer_is_left_to_it(request_: dict[str, Any]) -> None:
    assert Greeting(TOOLSETS).answer({"jsonrpc": "2.0", "id": 1, **request_}) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("search", {}, True),
        ("store_note", {}, True),
        ("append_messages", {}, False),
        ("append_messages", {"idempotency_key": "k1"}, True),
        ("create_conversation", {}, False),
        ("memory_correct", {}, False),
        ("no_such_tool", {}, False),
    ],
)
def test_only_calls_that_change_nothing_twice_are_repeated(
    tool: str, arguments: dict[str, str], *, expected: bool
) -> None:
    call = {"method": "tools/call", "params": {"name": tool, "arguments": arguments}}

    assert is_repeatable(call) is expected


def answered(greeting: Greeting, request: dict[str, Any]) -> dict[str, Any]:
    answer = greeting.answer(request)
    assert answer is not None
    message = json.loads(answer)
    assert message["id"] == request["id"]
    return message["result"]
