"""Operations as forms: fields from their JSON schema, and how the same call is made over MCP, REST and the CLI."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Literal, cast
from urllib.parse import urlencode

from engram.api.calls import find_route, is_read, option_names, rest_call
from engram.api.encoding import answer_text
from engram.api.operation import LEAN_TOKENS, AnyOperation
from engram.api.schema import Schema, input_schema
from engram.api.table import OPERATIONS
from engram.errors import InvalidRequestError
from engram.model.access import KeyScope
from engram.model.request import parse
from engram.model.value import Value
from engram.page.visit import Fields, Visit
from engram.text.quoting import IN_JSON

Widget = Literal["line", "text", "number", "choice", "flag", "list", "json"]
Way = Literal["reads", "writes", "destroys"]

LONG_TEXTS = frozenset({"content", "prompt", "question", "query", "summary", "text", "description"})
"""Fields that people write sentences into."""

ANSWER_CHARACTERS_MAX = 100_000
"""Of an answer that is shown; what is longer is cut visibly, and whole in the JSON."""

KEY = "$ENGRAM_API_KEY"
SERVER = "$ENGRAM_URL"


class FormField(Value):
    """One field of an operation as a person fills it in."""

    name: str
    widget: Widget
    hint: str
    is_required: bool
    choices: tuple[str, ...] = ()
    value: str = ""
    """What was filled in."""


class Calls(Value):
    """The same call in three languages; None where it cannot be made."""

    mcp: str | None
    rest: str | None
    cli: str | None


class OperationView(Value):
    """An operation in the list."""

    name: str
    description: str
    group: str
    way: Way
    scopes: tuple[KeyScope, ...]


def callable_operations(visit: Visit) -> dict[str, AnyOperation]:
    """Return the operations that the visitor may call and that take no file, by name."""
    return {each.name: each for each in OPERATIONS if _is_callable(visit, each)}


def _is_callable(visit: Visit, operation: AnyOperation) -> bool:
    if operation.tool is None and any(
        route.sends_bytes or route.body in ("bytes", "stream") for route in operation.routes
    ):
        return False
    if operation.is_operators:
        return visit.operator is not None
    if operation.toolset is not None and visit.has_organization:
        toolsets = visit.principal.toolsets
        if toolsets is not None and operation.toolset not in toolsets:
            return False
    return visit.allows(*operation.scopes)


def operation_view(operation: AnyOperation) -> OperationView:
    """Return an operation as the list shows it."""
    return OperationView(
        name=operation.name,
        description=operation.description,
        group=operation.group or operation.toolset or "other",
        way=way_of(operation),
        scopes=operation.scopes,
    )


def way_of(operation: AnyOperation) -> Way:
    """Return whether an operation reads, writes or removes something for good."""
    hints = operation.tool.hints if operation.tool else ()
    methods = {route.method for route in operation.routes}
    if "destroys" in hints or "delete" in operation.scopes or "DELETE" in methods:
        return "destroys"
    return "reads" if is_read(operation) else "writes"


def form_fields(operation: AnyOperation, sent: Fields) -> tuple[FormField, ...]:
    """Return the form of an operation, the required fields first, with what was filled in."""
    schema = input_schema(operation.request)
    required = set(schema.get("required", ()))
    filled = dict(sent)
    fields = [
        _form_field(name, part, is_required=name in required, value=filled.get(name, ""))
        for name, part in schema["properties"].items()
    ]
    return tuple(sorted(fields, key=lambda field: not field.is_required))


def _form_field(name: str, schema: Schema, *, is_required: bool, value: str) -> FormField:
    choices = tuple(map(str, schema.get("enum", ())))
    return FormField(
        name=name,
        widget=_widget(name, schema),
        hint=_hint(schema),
        is_required=is_required,
        choices=choices,
        value=value,
    )


def _widget(name: str, schema: Schema) -> Widget:
    if "enum" in schema:
        return "choice"
    match schema.get("type"):
        case "boolean":
            return "flag"
        case "integer" | "number":
            return "number"
        case "array":
            return "json" if schema["items"].get("type") == "object" else "list"
        case "string":
            return "text" if name in LONG_TEXTS else "line"
        case _:
            return "json"


def _hint(schema: Schema) -> str:
    parts = list[str]()
    if description := schema.get("description"):
        parts.append(description)
    if schema.get("type") == "array" and (choices := schema["items"].get("enum")):
        parts.append(f"Of {', '.join(choices)}.")
    if "minimum" in schema or "maximum" in schema:
        parts.append(f"{schema.get('minimum', 0)} to {schema.get('maximum', '…')}.")
    if schema.get("format") == "date-time":
        parts.append("As in 2026-01-31T09:00:00Z.")
    if "default" in schema:
        parts.append(f"Default {json.dumps(schema['default'])}.")
    return " ".join(parts)


def read_fields(operation: AnyOperation, sent: Fields) -> dict[str, Any]:
    """Return the fields of a form that was sent; what was left blank is left out.

    Raises:
        InvalidRequestError: a field that has to be JSON is not.
    """
    schema = input_schema(operation.request)["properties"]
    return {
        name: _read(name, schema[name], value)
        for name, value in sent
        if name in schema and value.strip()
    }


def _read(name: str, schema: Schema, value: str) -> Any:
    match _widget(name, schema):
        case "json":
            return _read_json(name, value)
        case "list":
            given = value.strip()
            return _read_json(name, given) if given.startswith("[") else given.splitlines()
        case "number":
            return _number(value.strip())
        case "flag":
            return value == "true"
        case "line" | "text" | "choice":
            return value.replace("\r\n", "\n")


def _number(value: str) -> Any:
    """Return a number; anything else as it is, which the operation refuses by its field."""
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return value


def _read_json(name: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as exc:
        raise InvalidRequestError(f"must be JSON: {exc}", field=name) from exc


def calls_of(operation: AnyOperation, given: Mapping[str, Any]) -> Calls:
    """Return how a call is made elsewhere, with a placeholder for the key."""
    return Calls(
        mcp=_mcp(operation, given), rest=_curl(operation, given), cli=_cli(operation, given)
    )


def _mcp(operation: AnyOperation, given: Mapping[str, Any]) -> str | None:
    if operation.tool is None:
        return None
    call = {"name": operation.name, "arguments": dict(given)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return IN_JSON.text(json.dumps(message, indent=2, ensure_ascii=False))


def _curl(operation: AnyOperation, given: Mapping[str, Any]) -> str | None:
    route = find_route(operation, given)
    if route is None:
        return None
    call = rest_call(route, given)
    query = f"?{urlencode(call.parameters)}" if call.parameters else ""
    # What is quoted is not expanded by the shell, so the variables stand in double quotes of their own.
    lines = [
        f'curl -X {call.method} "{SERVER}"{shlex.quote(call.path + query)}',
        f'-H "Authorization: Bearer {KEY}"',
    ]
    if call.body is not None:
        body = json.dumps(call.body, ensure_ascii=False)
        lines += ["-H 'Content-Type: application/json'", f"--data-binary {shlex.quote(body)}"]
    return " \\\n  ".join(lines)


def _cli(operation: AnyOperation, given: Mapping[str, Any]) -> str | None:
    command = operation.command
    if command is None:
        return None
    words = ["engram", *command.words]
    words += [_word(given[name]) for name in command.arguments if name in given]
    for name, value in given.items():
        if name not in (*command.arguments, *command.hidden, *command.fixed):
            words += _option(option_names(name)[0], value)
    return " ".join(shlex.quote(word) for word in [*words, "--json"])


def _option(option: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [option] if value else []
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [word for each in values for word in (option, _word(each))]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def mcp_text(operation: AnyOperation, given: Mapping[str, Any], answer: Any) -> str | None:
    """Return the text of an answer as a model gets it; None if the operation is no tool."""
    tool = operation.tool
    if tool is None:
        return None
    if tool.lean is None:
        return (tool.show or answer_text)(answer)
    request = parse(operation.request, dict(given), mode="lenient")
    return tool.lean(answer, getattr(request, "token_budget", LEAN_TOKENS))


def rest_text(content: Any) -> str:
    """Return the content of an answer as the JSON of REST, indented."""
    return IN_JSON.text(json.dumps(content, indent=2, ensure_ascii=False))
