"""What callers may send, for every transport: the shape here, the bounds proved by `engram.model`.

Field descriptions are read by models at work; they are short because every client pays for them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.access import KEY_SCOPES, KeyDraft, KeyScope, OrganizationDraft, Quota
from engram.model.conversation import (
    DEFAULT_PROJECT,
    AppendRequest,
    ConversationDraft,
    ConversationQuery,
    ConversationSort,
    MessageDraft,
    MessageQuery,
    Role,
    SortOrder,
)
from engram.model.ids import ConversationId
from engram.model.search import (
    KINDS,
    Detail,
    Kind,
    ProfileName,
    SearchFilters,
    SearchRequest,
)

VISIBLE = (
    r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+$"
)
"""What `engram.model.checks.check_label` lets pass, as far as every dialect of patterns can say it."""


class _Documented:
    """Adds to the schema of a type what `engram.model` refuses without pydantic's help."""

    def __init__(self, **keywords: Any) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), **self._keywords}


def _moment(value: object) -> object:
    """Read a time of RFC 3339; pydantic's own reading takes numbers for seconds since 1970."""
    try:
        return datetime.fromisoformat(value.upper()) if isinstance(value, str) else value
    except ValueError as exc:
        message = "must be a time such as 2026-01-02T03:04:05Z"
        raise PydanticCustomError("moment", message) from exc


def _whole(value: object) -> object:
    """Read 5.0 as 5, which are one number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LABEL = _Documented(pattern=VISIBLE)
_WHOLE = BeforeValidator(_whole)

Tag = Annotated[str, Field(min_length=1, max_length=limits.TAG_CHARACTERS_MAX), _LABEL]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX), _Documented(uniqueItems=True)]
Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS_MAX), _LABEL]
Project = Annotated[str, Field(min_length=1, max_length=limits.PROJECT_CHARACTERS_MAX), _LABEL]
Query = Annotated[
    str,
    Field(min_length=1, description="A question or words, in any language."),
    _Documented(pattern=r"\S"),
]
Moment = Annotated[AwareDatetime, Strict(), BeforeValidator(_moment)]


class Request(BaseModel):
    """A request that refuses arguments nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CreateConversation(Request):
    title: str | None = None
    agent_id: Name | None = None
    tags: Tags = []
    metadata: dict[str, Any] = {}
    project: Project = DEFAULT_PROJECT

    def to_model(self) -> ConversationDraft:
        return ConversationDraft(
            title=self.title,
            agent_id=self.agent_id,
            project=self.project,
            tags=tuple(self.tags),
            metadata=self.metadata,
        )


class MessageInput(Request):
    role: Role
    content: Annotated[str, Field(description="Kept verbatim.")]
    name: Annotated[Name | None, Field(description="Who speaks, if known.")] = None
    tool_call_id: Name | None = None
    tool_name: Name | None = None
    occurred_at: Annotated[Moment | None, Field(description="When it was said.")] = None
    metadata: dict[str, Any] | None = None

    def to_model(self) -> MessageDraft:
        return MessageDraft(
            role=self.role,
            content=self.content,
            name=self.name,
            tool_call_id=self.tool_call_id,
            tool_name=self.tool_name,
            occurred_at=self.occurred_at,
            metadata=self.metadata,
        )


Messages = Annotated[
    list[MessageInput], Field(min_length=1, max_length=limits.MESSAGES_PER_CALL_MAX)
]
IdempotencyKey = Annotated[
    str,
    Field(
        min_length=1,
        max_length=limits.IDEMPOTENCY_KEY_CHARACTERS_MAX,
        description="The same key within 24 h stores nothing again.",
    ),
    _LABEL,
]


class MessagesBody(Request):
    """Messages whose conversation the address names."""

    messages: Messages
    idempotency_key: IdempotencyKey | None = None

    def to_append(self, conversation_id: str | None) -> AppendRequest:
        drafts = list[MessageDraft]()
        for index, message in enumerate(self.messages):
            try:
                drafts.append(message.to_model())
            except InvalidRequestError as exc:
                raise exc.within(f"messages[{index}]") from exc
        return AppendRequest(
            messages=tuple(drafts),
            conversation_id=None if conversation_id is None else ConversationId(conversation_id),
            idempotency_key=self.idempotency_key,
        )


class AppendMessages(MessagesBody):
    conversation_id: Annotated[
        str | None, Field(description="Without it the default conversation takes them.")
    ] = None

    def to_model(self) -> AppendRequest:
        return self.to_append(self.conversation_id)


class Search(Request):
    query: Query
    limit: Annotated[int, Field(ge=1, le=limits.SEARCH_RESULTS_MAX), _WHOLE] = 5
    conversation_id: str | None = None
    tags: Annotated[Tags, Field(description="All must match.")] = []
    agent_id: Name | None = None
    project: Project | None = None
    role: Role | None = None
    since: Moment | None = None
    before: Moment | None = None
    kinds: Annotated[list[Kind], Field(min_length=1)] = list(KINDS)
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    token_budget: Annotated[
        int, Field(ge=limits.TOKEN_BUDGET_MIN, le=limits.TOKEN_BUDGET_MAX), _WHOLE
    ] = 2000
    detail: Annotated[
        Detail, Field(description="The best messages, whole windows, or handles without text.")
    ] = "messages"
    profile: Annotated[
        ProfileName, Field(description="How words, meaning and recency are weighed.")
    ] = "default"
    explain: bool = False

    def to_model(self) -> SearchRequest:
        return SearchRequest(
            query=self.query,
            limit=self.limit,
            filters=self._filters(),
            kinds=tuple(dict.fromkeys(self.kinds)),
            min_score=self.min_score,
            token_budget=self.token_budget,
            detail=self.detail,
            profile=self.profile,
            explain=self.explain,
        )

    def _filters(self) -> SearchFilters:
        conversation_id = self.conversation_id
        return SearchFilters(
            conversation_id=None if conversation_id is None else ConversationId(conversation_id),
            tags=tuple(self.tags),
            agent_id=self.agent_id,
            project=self.project,
            role=self.role,
            since=self.since,
            before=self.before,
        )


class MessagePageQuery(Request):
    """Which messages of a conversation to read."""

    message_limit: Annotated[int, Field(ge=1, le=limits.MESSAGE_PAGE_MAX), _WHOLE] = 100
    message_offset: Annotated[int, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), _WHOLE] = 0
    around_sequence: Annotated[
        int | None,
        Field(
            ge=1,
            le=limits.CONVERSATION_MESSAGES_MAX,
            description="Centre the page on this message.",
        ),
        _WHOLE,
    ] = None

    def to_query(self, conversation_id: str) -> MessageQuery:
        return MessageQuery(
            conversation_id=ConversationId(conversation_id),
            message_limit=self.message_limit,
            message_offset=self.message_offset,
            around_sequence=self.around_sequence,
        )


class GetConversation(MessagePageQuery):
    conversation_id: str

    def to_model(self) -> MessageQuery:
        return self.to_query(self.conversation_id)


class ListConversations(Request):
    limit: Annotated[int, Field(ge=1, le=limits.CONVERSATION_PAGE_MAX), _WHOLE] = 20
    offset: Annotated[int, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), _WHOLE] = 0
    agent_id: Name | None = None
    project: Project | None = None
    tags: Annotated[Tags, Field(description="All must match.")] = []
    sort: ConversationSort = "updated_at"
    order: SortOrder = "desc"

    def to_model(self) -> ConversationQuery:
        return ConversationQuery(
            limit=self.limit,
            offset=self.offset,
            agent_id=self.agent_id,
            project=self.project,
            tags=tuple(self.tags),
            sort=self.sort,
            order=self.order,
        )


class DeleteConversation(Request):
    conversation_id: str


class CreateKey(Request):
    name: Name
    scopes: Annotated[list[KeyScope], Field(min_length=1)] = list(KEY_SCOPES)
    expires_at: Moment | None = None

    def to_model(self) -> KeyDraft:
        return KeyDraft(
            name=self.name,
            scopes=tuple(dict.fromkeys(self.scopes)),
            expires_at=self.expires_at,
        )


class CreateOrganization(Request):
    name: Name
    messages_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), _WHOLE] = None
    bytes_max: Annotated[int | None, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), _WHOLE] = None

    def to_model(self) -> OrganizationDraft:
        quota = Quota(messages_max=self.messages_max, bytes_max=self.bytes_max)
        return OrganizationDraft(name=self.name, quota=quota)


class BackfillCompress(Request):
    batch_size: Annotated[int, Field(ge=1, le=limits.BACKFILL_BATCH_MAX), _WHOLE] = 500


class AuditQuery(Request):
    limit: Annotated[int, Field(ge=1, le=limits.AUDIT_PAGE_MAX), _WHOLE] = 100
    before: Moment | None = None


def invalid_request(exc: ValidationError) -> InvalidRequestError:
    """Return what pydantic found first, as our error: the field's path and what it must be."""
    error = exc.errors(include_url=False)[0]
    field = _path(error["loc"])
    match error["type"]:
        case "extra_forbidden":
            return InvalidRequestError("is not a known argument", field=field)
        case "too_long" | "string_too_long":
            unit = "characters" if error["type"] == "string_too_long" else "items"
            bound, actual = error.get("ctx", {})["max_length"], len(error["input"])
            return LimitExceededError(field, limit=bound, actual=actual, unit=unit)
        case _:
            return InvalidRequestError(error["msg"], field=field or None)


def _path(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).lstrip(".")
