"""Commands built from the table of operations: the fields of a request become options.

An operation's command has a function that prints the answer, whose docstring is the command's help.
Commands that do more than one operation can still use `request_options`.
"""

from __future__ import annotations

import functools
import inspect
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from engram import limits
from engram.api.calls import is_read, option_names
from engram.api.operation import AnyOperation, Command
from engram.api.table import OPERATIONS
from engram.cli.invocation import LOCAL_ONLY, Invocation
from engram.cli.options import (
    FUTURE_HELP,
    PAST_HELP,
    Forever,
    Yes,
    confirm,
    future_moment,
    past_moment,
    read_text,
    shared_options,
)
from engram.cli.output import print_notice, show_json
from engram.engine import LOST
from engram.errors import ConfigurationError, InvalidRequestError, UnavailableError
from engram.model.access import OPERATOR
from engram.model.fields import VISIBLE_ONLY
from engram.model.request import NOTHING, Request, parse
from engram.model.shape import Field, Shape, fields_of

if TYPE_CHECKING:
    from engram.settings import Settings

Given = dict[str, Any]
"""The fields of a request that the caller gave, by name."""

Show = Callable[[Any], None]

BY_NAME: Mapping[str, AnyOperation] = {operation.name: operation for operation in OPERATIONS}

HELP: Mapping[str, str] = {
    "home": "Home, as `engram homes list` names it.",
    "before": "Only before this time.",
    "bytes_max": "Maximum bytes stored.",
    "category": "Category.",
    "category_filter": "Only this category.",
    "content": "Text, stored verbatim.",
    "expires_at": "Expiry time.",
    "explain": "Show how each score was computed.",
    "immutable": "Forbid correcting and forgetting it.",
    "kinds": "Kinds of records to search.",
    "limit": "Maximum number of results.",
    "memory_type": "Type of memory.",
    "memory_types": "Only this type.",
    "message_limit": "Maximum number of messages.",
    "message_offset": "Number of messages to skip.",
    "messages_max": "Maximum number of messages stored.",
    "metadata": "A JSON object.",
    "min_score": "Minimum score.",
    "name": "What or whom it is for.",
    "offset": "Number of results to skip.",
    "order": "Sort order: ascending or descending.",
    "pattern_confidence": "Confidence in a pattern, 0 to 1.",
    "profile": "Weighting of words, meaning and recency.",
    "project": "Project.",
    "reason": "Reason, recorded in the history.",
    "relation_type": "Relation of the first memory to the second.",
    "role": "Role of the speaker.",
    "scopes": "Scope of the key. [default: all]",
    "since": "Only from this time on.",
    "sort": "Field to sort by.",
    "source": "Where it comes from.",
    "strength": "Strength of the relation, 0 to 1.",
    "tags": "Tag.",
    "title": "Title.",
    "token_budget": "Maximum tokens of text.",
    "tool_name": "Name of the tool that produced the message.",
    "top_k": "Maximum number of results.",
    "valid_from": "Start of its validity.",
    "valid_to": "End of its validity.",
}
"""Help texts of fields that have no description in the request."""

FUTURE = frozenset(("valid_to", "expires_at"))
"""Fields with a time in the future: a span such as 7d is added to now."""

CHOICES_CHARACTERS_MAX = 70
"""Longer lists of choices do not fit a terminal line."""

_METAVARS = {"moment": "WHEN", "object": "JSON"}
_TYPES: Mapping[str, Any] = {"text": str, "whole": int, "number": float, "flag": bool}


def operation_command(operation: AnyOperation, show: Show | None = None) -> Callable[..., None]:
    """Return the command of an operation; without `show` the answer is printed as JSON."""
    command = cast("Command", operation.command)
    printed = show or show_json

    def run(
        invocation: Invocation, *, given: Given, yes: bool = False, forever: bool = False
    ) -> None:
        if command.stdin is not None:
            given[command.stdin] = read_text(given.get(command.stdin))
        is_undone = command.is_undoable and not forever
        if is_undone:
            given["undo"] = True
        request = parse(operation.request, given, fixed=_fixed(operation))
        if command.question is not None and not is_undone:
            confirm(command.question.format_map(given), yes=yes)
        answer = _run(invocation, operation, request, given)
        invocation.show(answer, lambda: printed(answer))

    run.__name__ = operation.name
    run.__doc__ = inspect.getdoc(show) if show else operation.description
    own = [] if command.question is None else [_parameter("yes", Yes, default=False)]
    hidden = {*command.hidden, *command.fixed}
    if command.is_undoable:
        own.append(_parameter("forever", Forever, default=False))
        hidden.add("undo")
    fields = [field for field in fields_of(operation.request).values() if field.name not in hidden]
    arguments = sorted(
        (field for field in fields if field.name in command.arguments),
        key=lambda field: command.arguments.index(field.name),
    )
    options = {
        **{field.name: _argument(field, command) for field in arguments},
        **_options(
            (field for field in fields if field.name not in command.arguments),
            removable=command.removable,
            help_texts=command.help,
        ),
    }
    return shared_options(_gathering(run, fields, options, own))


def call(invocation: Invocation, name: str, given: Given) -> Any:
    """Run an operation with the given fields and return its answer.

    Raises:
        InvalidRequestError: a field is not valid.
    """
    operation = BY_NAME[name]
    request = parse(operation.request, given, fixed=_fixed(operation))
    return _run(invocation, operation, request, given)


def request_options(
    request: type[Request], *, without: Collection[str] = (), removable: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the fields of a request to a command as options; it receives them as `given`."""
    fields = [field for name, field in fields_of(request).items() if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [each for each in signature.parameters.values() if each.name != "given"]
        options = _options(fields, removable=removable)
        return shared_options(_gathering(command, fields, options, own[1:]))

    return decorate


def _run(invocation: Invocation, operation: AnyOperation, request: Request, given: Given) -> Any:
    """Run an operation on the server of the settings, in the store's engine, or in this process."""
    if server := invocation.server():
        return _call_server(server, operation, given)
    link = invocation.find_engine(operation.name) if operation.command else None
    run_here = functools.partial(_run_here, invocation, operation, request)
    answer = run_here() if link is None else _ask(link, operation, given, otherwise=run_here)
    if warning := getattr(answer, "quota_warning", None):
        print_notice(warning)
    return answer


def _call_server(settings: Settings, operation: AnyOperation, given: Given) -> Any:
    if operation.is_operators:
        raise ConfigurationError("ENGRAM_URL", LOCAL_ONLY)
    from engram.cli.remote import call_server

    answered = call_server(
        settings.url or "",
        api_key=settings.api_key,
        operation=operation,
        given=given,
        is_read=is_read(operation),
    )
    if answered.warning:
        print_notice(answered.warning)
    return answered.answer


def _ask(
    link: socket.socket, operation: AnyOperation, given: Given, *, otherwise: Callable[[], Any]
) -> Any:
    """Return the engine's answer; if it ends before that, a read is done `otherwise`.

    Raises:
        UnavailableError: it ended in the middle of an operation that changes something.
    """
    import msgspec

    from engram.engine.launch import call_engine

    try:
        answer = call_engine(link, msgspec.json.encode(given))
    except OSError as exc:
        if is_read(operation):
            return otherwise()
        raise UnavailableError(LOST) from exc
    own = operation.command and operation.command.answer
    return msgspec.convert(answer, own or operation.answer)


def _run_here(invocation: Invocation, operation: AnyOperation, request: Request) -> Any:
    command = operation.command
    run = (command and command.run) or operation.run
    if not is_read(operation):
        invocation.announce_write()
    if operation.is_operators:
        return invocation.run(lambda service: run(service, OPERATOR, request))
    return invocation.run_local(lambda service, me: run(service, me, request))


def _fixed(operation: AnyOperation) -> Mapping[str, Any]:
    return operation.command.fixed if operation.command else {}


def _gathering(
    command: Callable[..., None],
    fields: Iterable[Field],
    options: Mapping[str, inspect.Parameter],
    own: Iterable[inspect.Parameter],
) -> Callable[..., None]:
    """Return the command with the options in its signature in place of `given`."""
    by_name = {field.name: field for field in fields}

    @functools.wraps(command)
    def gathered(invocation: Invocation, **values: Any) -> None:
        typed = {name: values.pop(name) for name in options}
        command(invocation, given=_given(by_name, typed), **values)

    parameters = sorted([*own, *options.values()], key=lambda each: each.default is not each.empty)
    first = inspect.Parameter("invocation", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    vars(gathered)["__signature__"] = inspect.Signature([first, *parameters])
    return gathered


def _argument(field: Field, command: Command) -> inspect.Parameter:
    is_stdin = field.name == command.stdin
    metavar = "TEXT" if is_stdin else field.name.removesuffix("_id").upper()
    help_text = _help(field, command.help) + (" [default: stdin]" if is_stdin else "")
    argument = typer.Argument(metavar=metavar, help=help_text, show_default=False)
    if is_stdin or not field.is_required:
        return _parameter(field.name, Annotated[str | None, argument], default=None)
    return _parameter(field.name, Annotated[str, argument])


def _options(
    fields: Iterable[Field],
    *,
    removable: Collection[str] = (),
    help_texts: Mapping[str, str] = NOTHING,
) -> dict[str, inspect.Parameter]:
    options = dict[str, inspect.Parameter]()
    for field in fields:
        options[_keyword(field)] = _option(field, _help(field, help_texts))
        if field.name in removable:
            flag = typer.Option(_flag_removing(field), help=f"Remove the {_noun(field)}.")
            options[_removing(field)] = _parameter(
                _removing(field), Annotated[bool, flag], default=False
            )
    return options


def _option(field: Field, help_text: str) -> inspect.Parameter:
    shape = field.shape
    minimum, maximum = _range(shape)
    option = typer.Option(
        *option_names(field.name), help=help_text, min=minimum, max=maximum, metavar=_metavar(field)
    )
    has_shown_default = isinstance(field.default, str | int | float)
    default = field.default if has_shown_default else None
    if field.is_required:
        return _parameter(_keyword(field), Annotated[_type(shape), option])
    kind = _type(shape) if shape.kind == "flag" or default is not None else _type(shape) | None
    return _parameter(_keyword(field), Annotated[kind, option], default=default)


def _keyword(field: Field) -> str:
    """Return the name of a field's parameter: every command has a `home` of another meaning."""
    return "at" if field.name == "home" else field.name


def _parameter(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _type(shape: Shape) -> Any:
    match shape.kind:
        case "choice":
            return Literal[shape.choices]
        case "list":
            return list[_TYPES.get(shape.items.kind, str)]
        case kind:
            return _TYPES.get(kind, str)


def _noun(field: Field) -> str:
    return field.name.replace("_max", " limit").replace("_", " ")


def _removing(field: Field) -> str:
    return f"no_{field.name}"


def _flag_removing(field: Field) -> str:
    return f"--no-{field.name.replace('_', '-')}"


def _range(shape: Shape) -> tuple[float | None, float | None]:
    bounds = {
        name: bound
        for constraint in shape.constraints
        for name, bound in constraint.keywords(shape.kind).items()
    }
    maximum = bounds.get("maximum")
    return bounds.get("minimum"), None if maximum == limits.WHOLE_NUMBER_MAX else maximum


def _metavar(field: Field) -> str | None:
    """Return the metavar of an option, or None for the default one of its type."""
    shape = field.shape.items if field.shape.kind == "list" else field.shape
    if shape.kind == "choice":
        return _metavar_of_choice(field, shape)
    if shape.kind == "text":
        is_name = VISIBLE_ONLY in shape.constraints
        return "ID" if field.name.endswith("_id") else "NAME" if is_name else "TEXT"
    return _METAVARS.get(shape.kind)


def _metavar_of_choice(field: Field, shape: Shape) -> str | None:
    if _is_spelled_out(shape):
        return field.name.rpartition("_")[2].upper()
    return "|".join(shape.choices) if field.shape.kind == "list" else None


def _is_spelled_out(shape: Shape) -> bool:
    """Return True if the choices are too long for a metavar and are listed in the help text."""
    return len("|".join(shape.choices)) > CHOICES_CHARACTERS_MAX


def _help(field: Field, help_texts: Mapping[str, str]) -> str:
    shape = field.shape
    text = help_texts.get(field.name) or shape.description or HELP.get(field.name)
    parts = [text or _help_of_id(field.name)]
    if shape.kind == "choice" and _is_spelled_out(shape):
        parts.append(f"One of {', '.join(shape.choices)}.")
    if shape.kind == "moment":
        known = FUTURE_HELP if field.name in FUTURE else PAST_HELP
        parts.append(f"{known[0].upper()}{known[1:]}.")
    if shape.kind == "list":
        parts.append("Repeat for more.")
    return " ".join(parts)


def _help_of_id(name: str) -> str:
    noun = name.removesuffix("id").replace("_", " ").strip()
    return f"The {noun}'s id." if noun else "The id."


def _given(fields: Mapping[str, Field], typed: Mapping[str, Any]) -> Given:
    """Convert typed options to request fields; options that were not given are left out."""
    values = {name: typed.get(_keyword(field)) for name, field in fields.items()}
    given = {
        name: _read(fields[name], value)
        for name, value in values.items()
        if value not in (None, []) and value is not False
    }
    for name, field in fields.items():
        if typed.get(_removing(field)):
            if name in given:
                other = option_names(field.name)[0]
                message = f"cannot be combined with {other}"
                raise InvalidRequestError(message, field=_flag_removing(field))
            given[name] = [] if field.shape.kind == "list" else None
    return given


def _read(field: Field, value: Any) -> Any:
    match field.shape.kind:
        case "moment":
            from engram.clock import SystemClock

            read = future_moment if field.name in FUTURE else past_moment
            return read(
                option_names(field.name)[0].removeprefix("--"), value, now=SystemClock().now()
            )
        case "object":
            return _json(field.name, value)
        case _:
            return value


def _json(name: str, text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as exc:
        raise InvalidRequestError(f"is not JSON: {exc}", field=name) from exc
