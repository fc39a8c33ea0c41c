"""Tools: any operation as a form, with the same call and its answer as MCP, REST and CLI."""

from __future__ import annotations

from functools import partial
from typing import Any

from engram.api.encoding import characters_of
from engram.api.operation import AnyOperation
from engram.errors import EngramError, InvalidRequestError, NotFoundError
from engram.model.value import Value, plain, replace
from engram.page.playground import (
    ANSWER_CHARACTERS_MAX,
    Calls,
    FormField,
    OperationView,
    callable_operations,
    calls_of,
    form_fields,
    mcp_text,
    operation_view,
    read_fields,
    rest_text,
    way_of,
)
from engram.page.view import Act, Menu, Shown, View
from engram.page.visit import Fields, Visit
from engram.yielding import offload

RUN = "run"
"""The field that says that a form was sent, and not only opened."""

CONFIRMED = "confirmed"


class Group(Value):
    """Operations under one heading."""

    name: str
    operations: tuple[OperationView, ...]


class ToolsPage(Value):
    """What the visitor may call."""

    groups: tuple[Group, ...]


class Refused(Value):
    """Why a call failed."""

    code: str
    message: str
    field: str | None


class ToolPage(Value, omit_defaults=True):
    """An operation as a form, and what a call of it has answered."""

    operation: OperationView
    fields: tuple[FormField, ...]
    calls: Calls | None = None
    answer: Any = None
    """As REST sends it."""
    rest: str | None = None
    """The same, as it is shown."""
    mcp: str | None = None
    """As a model gets it over MCP."""
    is_cut: bool = False
    """True if what is shown is only the beginning."""
    refused: Refused | None = None


async def load(visit: Visit) -> ToolsPage:
    """Return the operations that the visitor may call, by group."""
    groups = dict[str, list[OperationView]]()
    for each in callable_operations(visit).values():
        view = operation_view(each)
        groups.setdefault(view.group, []).append(view)
    return ToolsPage(
        groups=tuple(Group(name=name, operations=tuple(own)) for name, own in groups.items())
    )


async def load_one(visit: Visit) -> ToolPage:
    """Return the form of an operation; one that reads is called if the form was sent."""
    operation = _find(visit)
    if way_of(operation) != "reads" or visit.given(RUN) is None:
        fields = form_fields(operation, visit.query)
        return ToolPage(operation=operation_view(operation), fields=fields)
    return await _call(visit, operation, visit.query)


async def run(visit: Visit) -> Shown:
    """Call an operation that changes something."""
    operation = _find(visit)
    if way_of(operation) == "destroys" and not visit.all_sent(CONFIRMED):
        raise InvalidRequestError("must be ticked: this cannot be undone", field=CONFIRMED)
    return Shown(template="tool.html", page=await _call(visit, operation, visit.form))


def _find(visit: Visit) -> AnyOperation:
    name = visit.parameters["operation"]
    operation = callable_operations(visit).get(name)
    if operation is None:
        raise NotFoundError("operation", name)
    return operation


async def _call(visit: Visit, operation: AnyOperation, sent: Fields) -> ToolPage:
    shown = ToolPage(operation=operation_view(operation), fields=form_fields(operation, sent))
    try:
        given = read_fields(operation, sent)
        answer = await visit.call(operation.name, **given)
    except EngramError as error:
        refused = Refused(
            code=error.code, message=error.message, field=getattr(error, "field", None)
        )
        return replace(shown, refused=refused)
    content = plain(answer)
    # A long answer is written on a thread, so that others are served meanwhile.
    write = partial(offload, characters=characters_of(content))
    rest: str = await write(partial(rest_text, content))
    mcp: str | None = await write(partial(mcp_text, operation, given, answer))
    return replace(
        shown,
        calls=calls_of(operation, given),
        answer=content,
        rest=rest[:ANSWER_CHARACTERS_MAX],
        mcp=None if mcp is None else mcp[:ANSWER_CHARACTERS_MAX],
        is_cut=max(len(rest), len(mcp or "")) > ANSWER_CHARACTERS_MAX,
    )


VIEWS = (
    View(
        path="/tools",
        template="tools.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Tools", place="more"),
    ),
    View(path="/tools/{operation}", template="tool.html", load=load_one, scopes=("read",)),
)
ACTS = (Act(path="/tools/{operation}/run", run=run, scopes=("read",)),)
