"""The parts of the documentation that the code knows best, as Markdown.

`make fix` writes them into `docs/reference/`, `make lint` checks that they are up to date.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import typer
from typer.testing import CliRunner

from engram import errors
from engram.api.operation import AnyOperation
from engram.api.table import OPERATIONS
from engram.cli.app import build_app
from engram.cli.maintenance import read_limits
from engram.http.openapi import openapi_document
from engram.http.problems import STATUS
from engram.mcp.resources import PROMPTS
from engram.mcp.tools import TOOLS, Tool, tools_of
from engram.model.access import DEFAULT_TOOLSETS, TOOLSETS
from engram.settings import PREFIX, all_settings
from engram.text.tokens import count_tokens

COMPUTED_DEFAULTS = {
    "home": "`$XDG_DATA_HOME/engram`, else `~/.local/share/engram`",
    "model_dir": "`$XDG_CACHE_HOME/engram/models`, else `~/.cache/engram/models`",
    "toolsets": f"`{','.join(DEFAULT_TOOLSETS)}`",
}
HELP_COLUMNS = "90"

Schema = Mapping[str, Any]


def limits_table() -> str:
    """Return every bound with its value and its reason."""
    rows = ((f"`{name}`", f"{value:,}", reason) for name, value, reason in read_limits())
    return _table(("limit", "value", "why"), rows)


def errors_table() -> str:
    """Return every error code with its HTTP status and what it means."""
    rows = (
        (f"`{error.code}`", _status_of(error), inspect.getdoc(error) or "")
        for error in all_errors()
    )
    return _table(("code", "status", "meaning"), rows)


def settings_table() -> str:
    """Return every setting with its default and what it is for."""
    rows = (
        (f"`{PREFIX}{name.upper()}`", _shown_default(name, setting.default), setting.description)
        for name, setting in all_settings().items()
    )
    return _table(("setting", "default", "what it is for"), rows)


def commands_text() -> str:
    """Return the help of every command."""
    return "\n\n".join(f"## `{name}`\n\n```\n{_help_of(name)}\n```" for name in all_commands())


def tools_text(tools: Iterable[Tool] = TOOLS) -> str:
    """Return every MCP tool with its arguments and the fields of its answer."""
    return "\n\n".join(map(_tool_text, tools))


def toolsets_table() -> str:
    """Return the toolsets, their tools, and what listing them costs a client."""
    rows = (
        (
            f"`{toolset}`" + (" (default)" if toolset in DEFAULT_TOOLSETS else ""),
            ", ".join(f"`{tool.name}`" for tool in tools_of((toolset,))),
            f"{round(sum(map(_tokens, tools_of((toolset,)))), -2):,}",
        )
        for toolset in TOOLSETS
    )
    return _table(("toolset", "tools", "tokens, about"), rows)


def prompts_table() -> str:
    """Return every MCP prompt with its argument."""
    rows = (
        (f"`{prompt.name}`", f"`{prompt.argument.name}`", prompt.description) for prompt in PROMPTS
    )
    return _table(("prompt", "argument", "what it asks for"), rows)


def routes_table(operations: Iterable[AnyOperation] = OPERATIONS) -> str:
    """Return every REST operation."""
    paths: Mapping[str, Mapping[str, Schema]] = openapi_document(operations)["paths"]
    rows = (
        (f"`{method.upper()}`", f"`{path}`", operation.get("description") or operation["summary"])
        for path, methods in paths.items()
        for method, operation in methods.items()
    )
    return _table(("method", "path", "what it does"), rows)


def all_errors() -> Sequence[type[errors.EngramError]]:
    """Return every error class in the order of the module."""
    classes = vars(errors).values()
    return [
        item for item in classes if inspect.isclass(item) and issubclass(item, errors.EngramError)
    ]


def all_commands() -> Iterator[str]:
    """Yield the full name of every command, groups included."""
    yield from _names("engram", typer.main.get_command(build_app()))


def _names(name: str, command: Any) -> Iterator[str]:
    yield name
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from _names(f"{name} {child}", subcommand)


def _help_of(name: str) -> str:
    arguments = [*name.split()[1:], "--help"]
    result = CliRunner().invoke(
        build_app(), arguments, prog_name="engram", env={"COLUMNS": HELP_COLUMNS}
    )
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def _status_of(error: type[errors.EngramError]) -> str:
    return next(str(STATUS[kind]) for kind in error.__mro__ if kind in STATUS)


def _tool_text(tool: Tool) -> str:
    fields = ", ".join(f"`{name}`" for name in tool.structure["properties"])
    answer = f"text; with `format: full` also {fields}" if tool.is_lean else fields
    return "\n\n".join(
        (
            f"## `{tool.name}`",
            tool.description,
            _table(("argument", "type", "default", "meaning"), _arguments(tool.input_schema)),
            f"Answer: {answer}.",
        )
    )


def _tokens(tool: Tool) -> int:
    """Return about what a tool costs in a listing."""
    shown = (
        tool.name,
        tool.title,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        tool.annotations,
    )
    return count_tokens(json.dumps(shown, separators=(",", ":")))


def _arguments(schema: Schema, prefix: str = "") -> Iterator[Sequence[str]]:
    """Yield a row for each property, and below a list of objects one for each of theirs."""
    for name, field in schema.get("properties", {}).items():
        needed = "required" if name in schema.get("required", ()) else _default(field)
        yield f"`{prefix}{name}`", _shape(field), needed, field.get("description", "")
        yield from _arguments(field.get("items", {}), prefix=f"{name}[].")


def _shape(schema: Schema) -> str:
    """Return the type and the bounds of a field in a few words."""
    options = [option for option in schema.get("anyOf", (schema,)) if option.get("type") != "null"]
    return " or ".join(_shape_of_one(option) for option in options)


def _shape_of_one(schema: Schema) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    bounds = _bounds(schema)
    kind = schema.get("format") or schema.get("type", "object")
    kind += f" ({bounds})" if bounds else ""
    return f"{kind} of {_shape(schema['items'])}" if "items" in schema else kind


def _bounds(schema: Schema) -> str:
    pairs = (("minimum", "maximum"), ("minItems", "maxItems"), ("minLength", "maxLength"))
    for low, high in pairs:
        match schema.get(low), schema.get(high):
            case None, None:
                continue
            case least, None:
                return f"at least {least:,}"
            case None, most:
                return f"at most {most:,}"
            case least, most:
                return f"{least:,} to {most:,}"
    return ""


def _default(schema: Schema) -> str:
    default = schema.get("default")
    return "" if default in (None, []) else f"`{default}`"


def _shown_default(name: str, default: object) -> str:
    match default:
        case _ if name in COMPUTED_DEFAULTS:
            return COMPUTED_DEFAULTS[name]
        case None | ():
            return ""
        case tuple():
            return f"`{','.join(map(str, cast('tuple[object, ...]', default)))}`"
        case _:
            return f"`{default}`"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
