"""What a tool is: how it is shown, what it takes and gives, and the use case it calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from engram import limits
from engram.model.access import Principal
from engram.model.toolsets import Toolset
from engram.offload import offload
from engram.service import Service
from engram.text.escaping import IN_JSON
from engram.transport import requests
from engram.transport.answers import characters_of, to_json
from engram.transport.mcp.schemas import Schema, input_schema, output_schema
from engram.transport.nearest import nearest

RequestT = TypeVar("RequestT", bound=requests.Request)
Answer = Mapping[str, Any]


def as_json(answer: Answer) -> str:
    """Return an answer as the text of a result: the same values, nothing in them unseen."""
    return IN_JSON.text(to_json(answer).decode())


def warned(answer: Answer, warning: str | None) -> Answer:
    """Return an answer with the warning that most of the quota is used, if one is due."""
    return answer if warning is None else {**answer, "quota_warning": warning}


@dataclass(frozen=True)
class Tool(Generic[RequestT]):
    """One tool: how it is shown, what it takes and gives, and the use case it calls."""

    name: str
    title: str
    description: str
    toolset: Toolset
    request: type[RequestT]
    answer: type[Any]
    run: Callable[[Service, Principal, RequestT], Awaitable[Answer]]
    show: Callable[[Answer], str] = as_json
    """Gives the text of an answer, for clients that read no structured content."""
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False
    body_bytes_max: int = limits.CONTROL_BODY_BYTES_MAX
    """Of a request with a call of it. Whatever needs more than the others needs the scope `write`."""

    @cached_property
    def input_schema(self) -> Schema:
        return input_schema(self.request)

    @cached_property
    def output_schema(self) -> Schema:
        return output_schema(self.answer)

    @property
    def annotations(self) -> dict[str, bool]:
        """Hints for clients; whether a reading tool destroys or may be repeated is no question."""
        closed = {"openWorldHint": False}
        if self.reads:
            return {"readOnlyHint": True, **closed}
        return {
            "readOnlyHint": False,
            "destructiveHint": self.destroys,
            "idempotentHint": self.repeatable,
            **closed,
        }

    async def call(
        self, service: Service, principal: Principal, arguments: Mapping[str, Any]
    ) -> Answer:
        """Parse the arguments and run the use case.

        Raises:
            EngramError: an argument is wrong, or the use case failed.
        """
        requests.check_encodable(arguments)
        try:
            request = self.request.model_validate(arguments)
        except ValidationError as exc:
            raise requests.invalid_request(exc, explain=self._explain) from exc
        return await self.run(service, principal, request)

    async def text_of(self, answer: Answer) -> str:
        """Return the text of an answer; a long one is written on a thread, others are served meanwhile."""
        return await offload(partial(self.show, answer), characters=characters_of(answer))

    def _explain(self, location: requests.Location) -> str:
        """Return what to say of an argument that does not exist."""
        *above, name = location
        known = _fields_at(self.input_schema, above)
        return f"is not a known argument of {self.name}; {nearest(str(name), known)}"


def _fields_at(schema: Schema, location: Sequence[int | str]) -> Collection[str]:
    """Return the fields of the object at a place in what a schema describes."""
    for part in location:
        schema = schema.get("items" if isinstance(part, int) else "properties", {})
        schema = schema if isinstance(part, int) else schema.get(part, {})
    return schema.get("properties", {})
