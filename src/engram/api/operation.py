"""The declaration of an operation: name, request, answer, scopes, tool, routes and command.

An operation is declared once. `engram.mcp` generates a tool from it, `engram.http` its routes and the
OpenAPI document, `engram.cli` a command.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from msgspec.structs import asdict

from engram import limits
from engram.model.access import KeyScope, Principal, Toolset
from engram.model.request import Request, subset
from engram.model.value import Value, replace

if TYPE_CHECKING:
    from engram.service import Service

RequestT = TypeVar("RequestT", bound=Request)
AnswerT = TypeVar("AnswerT", bound="Value | None")
CallerT = TypeVar("CallerT")

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Hint = Literal["reads", "destroys", "repeatable"]
"""MCP annotations of a tool: read-only, destructive, idempotent."""

Body = Literal["none", "json", "bytes", "stream"]
"""How a request's body is read: as JSON, as bytes within a limit, or as a stream that is never held
as a whole. Fields are in the body if it is JSON, and in the path and query string otherwise."""

STREAMED = -1
"""Instead of a limit: the body is streamed, and the store enforces a limit while it is received."""

QUOTA_WARNING = "Engram-Quota-Warning"
"""The HTTP header of the warning that an answer has no field for."""

LEAN_TOKENS = 4_000
"""Budget of lean answers whose operation has none of its own."""

_PARAMETER = re.compile(r"\{(\w+)")

ID_PATTERNS: Mapping[str, str] = {
    "memory_id": "mem_[A-Za-z0-9_-]+",
    "document_id": "(?:doc|mem)_[A-Za-z0-9_-]+",
    "erasure_id": "ers_[A-Za-z0-9_-]+",
}
"""Patterns of ids in paths, so that a literal segment such as `timeline` does not match."""


class Tool(Value):
    """An operation as an MCP tool."""

    title: str
    hints: tuple[Hint, ...] = ()
    is_listed: bool = True
    """False if it is only called by its name, and no client pays for it."""
    show: Callable[[Any], str] | None = None
    """Renders the text beside structured content; the default is the answer's JSON."""
    lean: Callable[[Any, int], str] | None = None
    """Renders an answer as text within a token budget. A tool that has one sends that text alone,
    unless it is called with `format: "full"`."""
    places: Callable[[Any], tuple[str, ...]] | None = None
    """Returns what an answer shows, as the log of deliveries names it: ids of memories, messages as
    `conv_…#12`. Answers of other tools are not logged."""


class Route(Value):
    """An operation as an HTTP route. Fields not in the path are in the query string or the body."""

    method: Method
    path: str
    status: int = 200
    name: str | None = None
    """Its own name, if an operation has several routes."""
    description: str | None = None
    aliases: Mapping[str, str] = {}
    """Names of fields in the path or query string that differ from their own."""
    fixed: Mapping[str, Any] = {}
    """Values of fields that this route does not accept."""
    body: Body | None = None
    """None means JSON if the method has a body."""
    is_documented: bool = True
    sends_bytes: bool = False
    """True if the answer is a download instead of JSON."""
    answer: type[Value] | None = None
    """Overrides the operation's answer."""
    run: Callable[[Service, Any, Any], Awaitable[Any]] | None = None
    """What it calls, if that is not what the tool does."""

    @property
    def reads_json(self) -> bool:
        """Return True if the fields are in a JSON body."""
        if self.body is None:
            return self.method in ("POST", "PUT", "PATCH")
        return self.body == "json"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the path parameters."""
        return tuple(_PARAMETER.findall(self.path))

    def field(self, parameter: str) -> str:
        """Return the field of a path or query parameter."""
        return next((name for name, said in self.aliases.items() if said == parameter), parameter)


class Command(Value):
    """An operation as a command of `engram`: `("notes", "list")`. Its fields are options."""

    words: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    """Positional arguments."""
    stdin: str | None = None
    """The argument that is read from stdin if it is omitted."""
    hidden: tuple[str, ...] = ()
    """Fields without an option, which have their defaults."""
    fixed: Mapping[str, Any] = {}
    """Values of fields that have no option."""
    removable: tuple[str, ...] = ()
    """Fields with a flag `--no-…` that removes their value."""
    help: Mapping[str, str] = {}
    """Help texts of options that differ from the descriptions for models."""
    question: str | None = None
    """Asks for confirmation, with fields in braces: `Delete {conversation_id}?`."""
    is_undoable: bool = False
    """Whether it sends `undo` unless `--forever` is given, which alone asks for confirmation."""
    answer: type[Value] | None = None
    """Overrides the operation's answer."""
    run: Callable[[Service, Any, Any], Awaitable[Any]] | None = None
    """What it calls, if that is not what the tool does."""


class Operation(Value, Generic[CallerT, RequestT, AnswerT]):
    """One operation."""

    name: str
    description: str
    """One or two sentences, short because models pay for them in every session."""
    request: type[RequestT]
    answer: type[AnswerT]
    run: Callable[[Service, CallerT, RequestT], Awaitable[AnswerT]]
    scopes: tuple[KeyScope, ...] = ()
    """The scopes a key must have; empty for an operator's operation."""
    toolset: Toolset | None = None
    """Keys limited to other toolsets may not call it; None means every key may."""
    group: str | None = None
    """The heading under which it is documented, if that is not its toolset."""
    is_operators: bool = False
    """True if it needs the operator's token instead of a key."""
    body_bytes_max: int = limits.CONTROL_BODY_BYTES_MAX
    """Limit of a request body. An operation with more than the default needs the scope `write`."""
    tool: Tool | None = None
    routes: tuple[Route, ...] = ()
    command: Command | None = None


KeyOperation = Operation[Principal, Any, Any]
OperatorOperation = Operation[str, Any, Any]
"""Its caller is the actor that the operator's token identifies."""

AnyOperation = Operation[Any, Any, Any]


def alias(
    operation: KeyOperation,
    name: str,
    *,
    title: str,
    description: str,
    fields: Collection[str],
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda given: given,
) -> KeyOperation:
    """Return an unlisted tool that calls an operation by another name, with some of its fields.

    `complete` returns the operation's fields for those of the alias, where defaults differ.
    """

    async def run(service: Service, caller: Principal, request: Request) -> Any:
        given = operation.request(**complete(asdict(request)))
        return await operation.run(service, caller, given)

    return replace(
        operation,
        name=name,
        description=description,
        request=subset(operation.request, fields),
        run=run,
        tool=replace(operation.tool, title=title, is_listed=False),
        routes=(),
        command=None,
    )
