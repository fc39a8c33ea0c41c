"""Mutated JSON-RPC messages: valid ones of every kind and tool, changed in structure and in bytes.

Everything comes from a seed and a number, so that a message that does harm can be made again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from typing_extensions import TypeIs

from engram.mcp.tools import TOOLS
from tests.mcp.connecting import INITIALIZE, MODERN

Json = Any
Message = dict[str, Json]
Id = str | int

META: Message = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

ODD_VALUES: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    -0.0,
    1e308,
    float("inf"),
    float("nan"),
    2**31,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    10**4000,
    "",
    " ",
    "x" * 3_000,
    "\x00",
    "\ud83e",
    "\u202e\u2066\ufeff",
    "\U0001f469\u200d\U0001f467",
    "'; DROP TABLE message; --",
    "../../etc/passwd",
    "conv_x",
    "2026-05-08T12:00:00",
    "9999-12-31T23:59:59.999999-23:59",
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"__proto__": {}},
    [None] * 50,
)

METHODS: tuple[tuple[str, Message], ...] = (
    ("initialize", INITIALIZE["params"]),
    ("ping", {}),
    ("server/discover", {}),
    ("tools/list", {}),
    ("tools/list", {"cursor": "x"}),
    ("resources/list", {}),
    ("resources/list", {"cursor": "50"}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "engram://conversations/"}),
    ("resources/read", {"uri": "engram://memories/"}),
    ("resources/read", {"uri": "engram://documents/"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "recall", "arguments": {"topic": "harbours"}}),
    ("prompts/get", {"name": "handoff"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "recall"}, "argument": {}}),
    ("logging/setLevel", {"level": "debug"}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("tools/sing", {}),
)

NOTIFICATIONS: tuple[tuple[str, Message], ...] = (
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": "nobody", "reason": "x"}),
    ("notifications/progress", {"progressToken": "nobody", "progress": 0.5}),
    ("notifications/roots/list_changed", {}),
)


ID_PREFIXES = {
    "conversation_id": "conv_",
    "episode_id": "ep_",
    "memory_id": "mem_",
    "id": "mem_",
    "entry_id": "mem_",
    "source_id": "mem_",
    "target_id": "mem_",
    "upload_id": "doc_",
}
"""What the ids in some arguments begin with."""


def mutants(seed: str, count: int, *, ids: Sequence[str]) -> Iterator[bytes]:
    """Yield so many messages, each different from a valid one in a few places.

    `ids` are of things that exist, for the arguments of tools.
    """
    for number in range(count):
        random = Random(f"{seed}/{number}")  # noqa: S311 no secret
        yield mutant(random, request_id=f"{seed}/{number}", ids=ids)


def mutant(random: Random, *, request_id: str, ids: Sequence[str]) -> bytes:
    """Return a message that is not quite valid."""
    message = valid_message(random, request_id=request_id, ids=ids)
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        message = random.choice(STRUCTURAL)(random, message)
    data = json.dumps(message, ensure_ascii=random.random() < 0.7).encode(errors="surrogatepass")
    if random.random() < 0.15:
        data = random.choice(BYTEWISE)(random, data)
    return data


def valid_message(random: Random, *, request_id: str, ids: Sequence[str]) -> Json:
    """Return a message that means something; most of them call tools."""
    kind = random.random()
    if kind < 0.7:
        tool = random.choice(TOOLS)
        arguments = sample(random, tool.input_schema, ids)
        return request(
            random, request_id, "tools/call", {"name": tool.name, "arguments": arguments}
        )
    if kind < 0.9:
        method, params = random.choice(METHODS)
        uri = {"uri": params["uri"] + random.choice(ids)} if "uri" in params else {}
        return request(random, request_id, method, {**params, **uri})
    if kind < 0.97:
        method, params = random.choice(NOTIFICATIONS)
        return {"jsonrpc": "2.0", "method": method, "params": params}
    outcome: Message = random.choice(({"result": {}}, {"error": {"code": -1, "message": "no"}}))
    return {"jsonrpc": "2.0", "id": request_id, **outcome}


def request(random: Random, request_id: str, method: str, params: Message) -> Message:
    own = {**params, "_meta": META} if random.random() < 0.5 else dict(params)
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": own}


def sample(random: Random, schema: Message, ids: Sequence[str]) -> Json:
    """Return a value that a schema allows, as far as its types and choices go."""
    match schema:
        case {"enum": choices}:
            return random.choice(choices)
        case {"type": "object"}:
            return sample_object(random, schema, ids)
        case {"type": "array"}:
            items = schema.get("items", {})
            return [sample(random, items, ids) for _ in range(random.choice((1, 2)))]
        case {"type": "integer" | "number" | "boolean"}:
            return schema.get("minimum", 1) if schema["type"] != "boolean" else True
        case _:
            return random.choice(("The harbour opens at six.", "default", *ids))


def sample_object(random: Random, schema: Message, ids: Sequence[str]) -> Message:
    """Return an object with the fields it needs and some of the others."""
    needed = set(schema.get("required", ()))
    return {
        name: sample_field(random, name, field, ids)
        for name, field in schema.get("properties", {}).items()
        if name in needed or random.random() < 0.2
    }


def sample_field(random: Random, name: str, schema: Message, ids: Sequence[str]) -> Json:
    """Return a value for a field; where its name asks for an id, mostly one that it may take."""
    prefix = ID_PREFIXES.get(name)
    fitting = [own for own in ids if prefix and own.startswith(prefix)]
    if fitting and random.random() < 0.8:
        return random.choice(fitting)
    return sample(random, schema, ids)


def is_object(value: Json) -> TypeIs[Message]:
    return isinstance(value, dict)


def is_list(value: Json) -> TypeIs[list[Json]]:
    return isinstance(value, list)


def replaced(random: Random, message: Json) -> Json:
    """Replace a value by an odd one."""
    return changed_at(random, message, lambda _: random.choice(ODD_VALUES))


def nested(random: Random, message: Json) -> Json:
    """Put a value below many others."""
    depth = random.choice((2, 20, 100))

    def deeper(value: Json) -> Json:
        for _ in range(depth):
            value = [value] if depth % 3 else {"a": value}
        return value

    return changed_at(random, message, deeper)


def widened(random: Random, message: Json) -> Json:
    """Add an argument that nobody knows."""

    def wider(value: Json) -> Json:
        if is_object(value):
            return {**value, random.choice(("quary", "id", "", "\u202e", "_meta")): 1}
        return [value, value] if random.random() < 0.5 else [value]

    return changed_at(random, message, wider)


def narrowed(random: Random, message: Json) -> Json:
    """Leave out a field."""

    def narrower(value: Json) -> Json:
        if is_object(value) and value:
            left_out = random.choice(sorted(value))
            return {name: kept for name, kept in value.items() if name != left_out}
        return value[1:] if is_list(value) or isinstance(value, str) else value

    return changed_at(random, message, narrower)


def batched(random: Random, message: Json) -> Json:
    """Send several as one, or one as several."""
    return [message] * random.choice((1, 2)) if random.random() < 0.3 else message


def with_an_odd_id(random: Random, message: Json) -> Json:
    if not is_object(message):
        return message
    return {**message, "id": random.choice(ODD_VALUES)}


STRUCTURAL: tuple[Callable[[Random, Json], Json], ...] = (
    *(replaced, nested, widened, narrowed) * 4,
    batched,
    with_an_odd_id,
)


def changed_at(random: Random, message: Json, change: Callable[[Json], Json]) -> Json:
    """Return a message with a value somewhere in it changed, rather deep in it than at its top."""
    if is_object(message) and message:
        inner = [name for name in ("params", "arguments") if name in message]
        if random.random() < (0.97 if inner else 0.85):
            name = random.choice(inner * 20 + sorted(message))
            return {**message, name: changed_at(random, message[name], change)}
    if is_list(message) and message and random.random() < 0.8:
        place = random.randrange(len(message))
        changed = changed_at(random, message[place], change)
        return [*message[:place], changed, *message[place + 1 :]]
    return change(message)


def truncated(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def flipped(random: Random, data: bytes) -> bytes:
    flips = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        flips[random.randrange(len(flips))] ^= 1 << random.randrange(8)
    return bytes(flips)


def spliced(random: Random, data: bytes) -> bytes:
    """Put bytes in that no text holds, or that end one early."""
    splices = (
        b"\xff",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\x00",
        b"\xef\xbb\xbf",
        b"\\ud800",
        b'"',
        b"}",
    )
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(splices) + data[place:]


def doubled(random: Random, data: bytes) -> bytes:
    """Send several values where one belongs, or a field twice."""
    doubles = (data + data, data + b" " + data, b"[]" + data, data.replace(b"{", b'{"id":7,', 1))
    return random.choice((*doubles, data.replace(b"{", b'{"method":1,"params":[],', 1)))


def deepened(random: Random, data: bytes) -> bytes:
    """Put a value below more others than most parsers bear."""
    before, colon, after = data.rpartition(random.choice((b'"params":', b'"arguments":', b":")))
    depth = random.choice((200, 2_000, 20_000))
    return before + colon + b'{"a":' * depth + b"[]" + b"}" * depth + after[after.find(b"}") :]


BYTEWISE: tuple[Callable[[Random, bytes], bytes], ...] = (
    truncated,
    flipped,
    spliced,
    doubled,
    deepened,
)


def ids_of(data: bytes) -> tuple[Id | None, bool]:
    """Return the id that an answer to a message may carry, and whether it is owed one."""
    try:
        message: Json = json.loads(data)
    except (ValueError, RecursionError):
        return None, False
    match message:
        case {"id": str() | int() as own} if not isinstance(own, bool):
            return own, message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)
        case _:
            return None, False
