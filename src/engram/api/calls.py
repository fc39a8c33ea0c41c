"""How an operation is called: as a request to REST, and by the names of a command's options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from engram.api.operation import AnyOperation, Route
from engram.clock import format_time

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
"""A parameter of a path, with its type."""

Fields = Mapping[str, Any]

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "agent_id": ("--agent",),
    "around_sequence": ("--around",),
    "category_filter": ("--category",),
    "conversation_id": ("--conversation", "-c"),
    "episode_id": ("--episode",),
    "expires_at": ("--expires",),
    "home": ("--at",),
    "include_relations": ("--hops",),
    "kinds": ("--kind",),
    "limit": ("--limit", "-n"),
    "memory_type": ("--type",),
    "memory_types": ("--type",),
    "message_limit": ("--limit", "-n"),
    "message_offset": ("--offset",),
    "min_importance": ("--importance",),
    "pattern_confidence": ("--confidence",),
    "projects": ("--project",),
    "relation_type": ("--type",),
    "scopes": ("--scope",),
    "tags": ("--tag", "-t"),
    "token_budget": ("--token-budget", "--budget"),
}
"""Option names that differ from their field names."""


class RestCall(NamedTuple):
    """A request to REST."""

    method: str
    path: str
    parameters: tuple[tuple[str, str], ...]
    """Of the query string."""
    body: dict[str, Any] | None
    """The JSON object of the body; None without one."""


def is_read(operation: AnyOperation) -> bool:
    """Return True if an operation changes nothing, and so may run a second time."""
    hints = operation.tool.hints if operation.tool else ()
    return "reads" in hints or any(route.method == "GET" for route in operation.routes)


def option_names(field: str) -> tuple[str, ...]:
    """Return the names of the option of a field."""
    return SPELLINGS.get(field, (f"--{field.replace('_', '-')}",))


def find_route(operation: AnyOperation, fields: Fields) -> Route | None:
    """Return the first route whose path can be filled."""
    return next(
        (
            route
            for route in operation.routes
            if all(fields.get(route.field(name)) is not None for name in route.parameters)
        ),
        None,
    )


def rest_call(route: Route, fields: Fields) -> RestCall:
    """Return the request that sends fields to a route."""
    in_path = {route.field(name) for name in route.parameters}
    path = _PARAMETER.sub(
        lambda found: quote(str(fields[route.field(found[1])]), safe=""), route.path
    )
    others = {
        name: value
        for name, value in fields.items()
        if name not in in_path and name not in route.fixed
    }
    if route.reads_json:
        return RestCall(route.method, path, (), others)
    return RestCall(route.method, path, tuple(_parameters(route, others)), None)


def _parameters(route: Route, fields: Fields) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        for each in values:
            yield route.aliases.get(name, name), _as_parameter(each)


def _as_parameter(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            return format_time(value)
        case _:
            return str(value)
