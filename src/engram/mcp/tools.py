"""MCP tools made from the table of operations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Literal

from engram import limits
from engram.api.deliveries import note_given
from engram.api.encoding import answer_text, characters_of
from engram.api.operation import LEAN_TOKENS, AnyOperation
from engram.api.schema import Schema, input_schema, output_schema
from engram.api.table import OPERATIONS
from engram.model.access import KeyScope, Principal, Toolset
from engram.model.fields import TokenBudget
from engram.model.request import Request, check_encodable, parse
from engram.model.shape import fields_of
from engram.model.value import plain
from engram.service import Service
from engram.yielding import offload

Answer = Mapping[str, Any]


class Reading(Request):
    """How the answer of a reading tool is written; REST answers are always full."""

    format: Literal["lean", "full"] = "lean"
    token_budget: TokenBudget = LEAN_TOKENS


class Tool:
    """An operation as a tool: how it is shown, and how it is called."""

    def __init__(self, operation: AnyOperation) -> None:
        if operation.tool is None or operation.toolset is None:
            raise TypeError(f"{operation.name} is not a tool")
        self._operation = operation
        self._tool = operation.tool
        self.name = operation.name
        self.title = operation.tool.title
        self.description = operation.description
        self.toolset: Toolset = operation.toolset
        self.is_listed = operation.tool.is_listed
        self.body_bytes_max = operation.body_bytes_max

    @property
    def input_schema(self) -> Schema:
        schema = input_schema(self._operation.request)
        if not self.is_lean:
            return schema
        further = input_schema(Reading)["properties"]
        return {**schema, "properties": {**further, **schema["properties"]}}

    @property
    def is_lean(self) -> bool:
        """Return True if answers are text alone unless their structure is asked for."""
        return self._tool.lean is not None

    @property
    def structure(self) -> Schema:
        """Return the schema of structured content."""
        return output_schema(self._operation.answer)

    @property
    def output_schema(self) -> Schema | None:
        """Return the schema that is published: that of content which every answer has.

        Clients need the types; which fields are always there would cost a session 60 tokens.
        """
        if self.is_lean:
            return None
        return {name: part for name, part in self.structure.items() if name != "required"}

    @property
    def annotations(self) -> dict[str, bool]:
        """Hints for clients that differ from the protocol's defaults."""
        hints, given = self._tool.hints, {"openWorldHint": False}
        if "reads" in hints:
            return {"readOnlyHint": True, **given}
        if "destroys" not in hints:
            given["destructiveHint"] = False
        if "repeatable" in hints:
            given["idempotentHint"] = True
        return given

    async def call(
        self,
        service: Service,
        principal: Principal,
        arguments: Mapping[str, Any],
        *,
        client: str | None = None,
    ) -> tuple[Answer | None, str]:
        """Parse the arguments, run the use case, and return its answer as JSON and as text.

        A lean answer is text alone: clients show models either, and a model pays for each. What a
        named client is given of what is stored is logged.

        Raises:
            EngramError: an argument is wrong, or the use case failed.
        """
        check_encodable(arguments)
        kind = f"argument of {self.name}"
        own, reading = self._split(arguments)
        how = parse(Reading, reading, mode="lenient", kind=kind)
        request = parse(self._operation.request, own, mode="lenient", kind=kind)
        answer = await self._operation.run(service, principal, request)
        content = plain(answer)
        # A long answer is written on a thread, so that others are served meanwhile.
        write = partial(offload, characters=characters_of(content))
        if self._tool.lean is None or how.format == "full":
            text = await write(partial(self._tool.show or answer_text, answer))
        else:
            budget = getattr(request, "token_budget", how.token_budget)
            content, text = None, await write(partial(self._tool.lean, answer, budget))
        if client is not None:
            note_given(
                service, principal, self._operation, request, answer, text=text, client=client
            )
        return content, text

    def _split(self, arguments: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the arguments of the operation, and those that say how its answer is read."""
        if not self.is_lean:
            return arguments, {}
        ours = fields_of(Reading).keys() - fields_of(self._operation.request).keys()
        reading = {name: value for name, value in arguments.items() if name in ours}
        return {name: value for name, value in arguments.items() if name not in ours}, reading


TOOLS: tuple[Tool, ...] = tuple(Tool(each) for each in OPERATIONS if each.tool is not None)
"""Every tool that can be called, in the order in which clients see those that are listed."""

TOOLS_BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}


def tools_of(toolsets: tuple[Toolset, ...]) -> tuple[Tool, ...]:
    """Return the tools that these toolsets list, in their order."""
    return tuple(tool for tool in TOOLS if tool.is_listed and tool.toolset in toolsets)


@cache
def call_bytes_max(scopes: frozenset[KeyScope], toolsets: tuple[Toolset, ...] | None) -> int:
    """Return how large a call may be that a key with these scopes and toolsets sends.

    Which tool is called stands in the body itself, so the largest of those it may call counts.
    """
    if "write" not in scopes:
        return limits.CONTROL_BODY_BYTES_MAX
    allowed = [tool for tool in TOOLS if toolsets is None or tool.toolset in toolsets]
    return max((tool.body_bytes_max for tool in allowed), default=limits.CONTROL_BODY_BYTES_MAX)
