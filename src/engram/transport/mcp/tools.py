"""The MCP tools: one table, from which listing, schemas, calls and documentation are made.

Descriptions are read by a model at work, and every session pays for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from engram.errors import InvalidRequestError
from engram.model.access import Principal
from engram.model.ids import ConversationId
from engram.service import Service
from engram.transport import answers, requests
from engram.transport.mcp.schemas import Schema, input_schema, output_schema

RequestT = TypeVar("RequestT", bound=requests.Request)
Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Tool(Generic[RequestT]):
    """One tool: how it is shown, what it takes and gives, and the use case it calls."""

    name: str
    title: str
    description: str
    toolset: str
    request: type[RequestT]
    answer: type[Any]
    run: Callable[[Service, Principal, RequestT], Awaitable[Answer]]
    reads: bool = False
    destroys: bool = False
    repeatable: bool = False

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
        try:
            request = self.request.model_validate(arguments)
        except ValidationError as exc:
            raise requests.invalid_request(exc) from exc
        return await self.run(service, principal, request)


async def _create_conversation(
    service: Service, principal: Principal, request: requests.CreateConversation
) -> Answer:
    created = await service.conversations.create_conversation(principal, request.to_model())
    return answers.ConversationCreated(conversation_id=created)


async def _append_messages(
    service: Service, principal: Principal, request: requests.AppendMessages
) -> Answer:
    receipt = await service.conversations.append_messages(principal, request.to_model())
    return answers.messages_appended(receipt)


async def _search(service: Service, principal: Principal, request: requests.Search) -> Answer:
    return answers.search_answered(await service.recall.search(principal, request.to_model()))


async def _get_conversation(
    service: Service, principal: Principal, request: requests.GetConversation
) -> Answer:
    page = await service.conversations.get_conversation(principal, request.to_model())
    return answers.conversation_read(page)


async def _list_conversations(
    service: Service, principal: Principal, request: requests.ListConversations
) -> Answer:
    page = await service.conversations.list_conversations(principal, request.to_model())
    return answers.conversations_listed(page)


async def _delete_conversation(
    service: Service, principal: Principal, request: requests.DeleteConversation
) -> Answer:
    conversation_id = ConversationId(request.conversation_id)
    receipt = await service.conversations.delete_conversation(principal, conversation_id)
    return answers.conversation_deleted(receipt)


TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        name="search",
        title="Search memory",
        description=(
            "Find what was said in any earlier conversation, verbatim. Use it before you answer"
            " what may rest on the past. Read around a result with"
            " get_conversation(around_sequence)."
        ),
        toolset="conversations",
        request=requests.Search,
        answer=answers.SearchAnswered,
        run=_search,
        reads=True,
    ),
    Tool(
        name="append_messages",
        title="Keep messages",
        description="Keep messages verbatim: durable and searchable when this returns.",
        toolset="conversations",
        request=requests.AppendMessages,
        answer=answers.MessagesAppended,
        run=_append_messages,
    ),
    Tool(
        name="create_conversation",
        title="Begin conversation",
        description="Begin a conversation of its own, to append messages to.",
        toolset="conversations",
        request=requests.CreateConversation,
        answer=answers.ConversationCreated,
        run=_create_conversation,
    ),
    Tool(
        name="get_conversation",
        title="Read conversation",
        description="Read messages in order, a page at a time: go on at next_offset.",
        toolset="conversations",
        request=requests.GetConversation,
        answer=answers.ConversationRead,
        run=_get_conversation,
        reads=True,
    ),
    Tool(
        name="list_conversations",
        title="List conversations",
        description="List conversations, last used first.",
        toolset="conversations",
        request=requests.ListConversations,
        answer=answers.ConversationsListed,
        run=_list_conversations,
        reads=True,
    ),
    Tool(
        name="delete_conversation",
        title="Delete conversation",
        description="Delete a conversation for good, when the user asks for it.",
        toolset="conversations",
        request=requests.DeleteConversation,
        answer=answers.ConversationDeleted,
        run=_delete_conversation,
        destroys=True,
        repeatable=True,
    ),
)
"""Every tool, in the order in which clients see them."""

TOOLS_BY_NAME: Mapping[str, Tool[Any]] = {tool.name: tool for tool in TOOLS}

TOOLSETS: tuple[str, ...] = tuple(dict.fromkeys(tool.toolset for tool in TOOLS))


def tools_of(toolsets: tuple[str, ...]) -> tuple[Tool[Any], ...]:
    """Return the tools of these toolsets, in their order."""
    return tuple(tool for tool in TOOLS if tool.toolset in toolsets)


def parse_toolsets(text: str) -> tuple[str, ...]:
    """Return the toolsets a connection asks for, comma-separated.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in TOOLSETS:
            message = f"there is no toolset {name!r}; known: {', '.join(TOOLSETS)}"
            raise InvalidRequestError(message, field="toolsets")
    return names
