"""What agents were given, and what a prompt would get now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from engram import limits
from engram.api.operation import AnyOperation, KeyOperation, Operation, Route
from engram.model.access import Principal
from engram.model.fields import Between, Bytes, Length, Project
from engram.model.reminder import Delivery, DeliveryEvent, Given, ReminderRequest
from engram.model.request import Request
from engram.model.status import SearchTimes
from engram.model.value import Value, derived

if TYPE_CHECKING:
    from engram.service import Service

GROUP = "account"

Silence = Literal["prompt_says_nothing", "nothing_relevant"]


class DeliveryQuery(Request):
    """Selects what agents were given."""

    limit: Annotated[int, Between(1, limits.DELIVERY_PAGE_MAX)] = 50
    before: datetime | None = None
    client: Annotated[str | None, Length(1, 256)] = None
    events: Annotated[
        tuple[DeliveryEvent, ...], "start and prompt are reminders, the others tools."
    ] = ()


class DeliveriesListed(Value):
    """What agents were given, newest first."""

    deliveries: tuple[Delivery, ...]
    next_before: datetime | None
    """What to pass as `before` for older ones; None if there are none."""


class ActivityQuery(Request):
    """How many days to list."""

    days: Annotated[int, Between(1, limits.USAGE_DAYS_MAX)] = 30


class DeliveredOnDay(Value):
    """What agents were given on one day."""

    day: str
    """In UTC, as in 2026-01-31."""
    deliveries: int
    tokens: int


class ActivityView(Value):
    """What agents were given by day, and how long their searches took."""

    days: tuple[DeliveredOnDay, ...]
    """The newest first, as far as the log goes."""
    searches: SearchTimes | None
    """Of the process that answers, since its start; None before the first search."""


class PromptToPreview(Request):
    """A prompt as an agent would get it."""

    prompt: Annotated[
        str | None,
        Bytes(limits.QUERY_BYTES_MAX),
        "Without it: what a new session is told.",
    ] = None
    project: Project | None = None


class ReminderPreview(Value, omit_defaults=True):
    """What the hook would tell an agent."""

    context: str
    """The fenced text; empty for silence."""
    shown: tuple[str, ...]
    """Ids of memories, and messages as `conv_…#12`."""
    tokens: int
    bytes: int
    bytes_max: int
    silence: Silence | None = None


def note_given(
    service: Service,
    principal: Principal,
    operation: AnyOperation,
    request: Request,
    answer: Any,
    *,
    text: str,
    client: str,
) -> None:
    """Log what a client was given of what is stored; most operations give nothing."""
    if operation.tool is None or operation.tool.places is None:
        return
    given = Given(
        organization_id=principal.organization_id,
        at=service.clock.now(),
        client=client,
        key=principal.actor,
        event=operation.name,
        query=getattr(request, "query", None),
        shown=operation.tool.places(answer),
        text=text,
    )
    service.deliveries.note(given)


async def list_deliveries(
    service: Service, principal: Principal, request: DeliveryQuery
) -> DeliveriesListed:
    found = await service.search.list_deliveries(
        principal,
        limit=request.limit + 1,
        before=request.before,
        client=request.client,
        events=request.events or None,
    )
    shown = found[: request.limit]
    return DeliveriesListed(
        deliveries=shown, next_before=shown[-1].at if len(found) > request.limit else None
    )


async def activity(service: Service, principal: Principal, request: ActivityQuery) -> ActivityView:
    days = await service.search.delivered_by_day(principal, days=request.days)
    return ActivityView(
        days=tuple(derived(DeliveredOnDay, each, day=each.day.isoformat()) for each in days),
        searches=service.search.search_times(principal),
    )


async def preview_reminder(
    service: Service, principal: Principal, request: PromptToPreview
) -> ReminderPreview:
    from engram.privacy.cleaning import query_of_prompt  # noqa: PLC0415 few callers need it

    query = None if request.prompt is None else query_of_prompt(request.prompt)
    is_prompt = request.prompt is not None
    bytes_max = limits.HOOK_PROMPT_BYTES_MAX if is_prompt else limits.HOOK_START_BYTES_MAX
    if is_prompt and query is None:
        return _silent("prompt_says_nothing", bytes_max=bytes_max)
    asked = ReminderRequest(query=query, project=request.project, bytes_max=bytes_max)
    reminder = await service.search.remind(principal, asked)
    if not reminder.context:
        return _silent("nothing_relevant", bytes_max=bytes_max)
    return ReminderPreview(
        context=reminder.context,
        shown=tuple(each.place for each in reminder.shown),
        tokens=reminder.tokens,
        bytes=len(reminder.context.encode("utf-8", "replace")),
        bytes_max=bytes_max,
    )


def _silent(why: Silence, *, bytes_max: int) -> ReminderPreview:
    return ReminderPreview(
        context="", shown=(), tokens=0, bytes=0, bytes_max=bytes_max, silence=why
    )


OPERATIONS: tuple[KeyOperation, ...] = (
    Operation(
        name="list_deliveries",
        description="List what agents were told by hooks and answered by tools and REST, newest first.",
        request=DeliveryQuery,
        answer=DeliveriesListed,
        run=list_deliveries,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/deliveries"),),
    ),
    Operation(
        name="activity",
        description="Say how many tokens agents were given by day, and how long searches took.",
        request=ActivityQuery,
        answer=ActivityView,
        run=activity,
        group=GROUP,
        scopes=("read",),
        routes=(Route(method="GET", path="/api/v1/activity"),),
    ),
    Operation(
        name="preview_reminder",
        description="Say what the hook would tell an agent for this prompt now; nothing is noted.",
        request=PromptToPreview,
        answer=ReminderPreview,
        run=preview_reminder,
        group=GROUP,
        scopes=("search",),
        routes=(Route(method="POST", path="/api/v1/reminders/preview"),),
    ),
)
