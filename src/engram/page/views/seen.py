"""What the agent saw: reminders and answers of tools, and what a prompt would get now."""

from __future__ import annotations

from engram.api.deliveries import DeliveriesListed, ReminderPreview
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.capture import session_conversation
from engram.model.fields import check_choice
from engram.model.reminder import REMINDERS, Delivery, DeliveryEvent
from engram.model.value import Value
from engram.page.places import Place, places_of
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

SHOWN = 25
KINDS: dict[str, tuple[DeliveryEvent, ...]] = {
    "reminders": REMINDERS,
    "searches": ("search",),
    "contexts": ("fetch_context",),
    "recalls": ("memory_recall", "memory_query"),
}
WHY = {
    "start": "was reminded as its session began",
    "prompt": "was reminded with a prompt",
    "search": "searched",
    "fetch_context": "fetched context",
    "memory_recall": "recalled memories",
    "memory_query": "queried memories",
}


class SeenItem(Value, omit_defaults=True):
    """One delivery."""

    delivery: Delivery
    why: str
    query: str | None = None
    """What a tool was asked; of a prompt only the digest is kept."""
    places: tuple[Place, ...]
    session_link: str | None = None
    """The session's own conversation, if it was captured."""


class SeenPage(Value, omit_defaults=True):
    """What agents were given, newest first."""

    items: tuple[SeenItem, ...]
    filters: dict[str, str]
    next_before: str | None = None
    preview: ReminderPreview | None = None
    preview_places: tuple[Place, ...] = ()
    prompt: str | None = None
    project: str | None = None


async def load(visit: Visit) -> SeenPage:
    """Return the deliveries that the address asks for, and the preview of a prompt if it has one."""
    kind, client = visit.given("kind"), visit.given("client")
    if kind is not None:
        check_choice("kind", kind, tuple(KINDS))
    listed: DeliveriesListed = await visit.call(
        "list_deliveries",
        limit=SHOWN,
        before=visit.given("before"),
        client=client,
        events=None if kind is None else KINDS[kind],
    )
    sessions = await _captured(visit, listed.deliveries)
    following = listed.next_before
    given = {"kind": kind, "client": client}
    preview = await _preview(visit)
    return SeenPage(
        items=tuple(_item(each, sessions) for each in listed.deliveries),
        filters={name: value for name, value in given.items() if value is not None},
        next_before=None if following is None else following.isoformat(),
        preview=preview,
        preview_places=() if preview is None else places_of(preview.shown),
        prompt=visit.given("prompt"),
        project=visit.given("project"),
    )


async def _preview(visit: Visit) -> ReminderPreview | None:
    """Return what the hook would tell; a form that was sent empty asks for the start of a session."""
    if not visit.allows("search") or not any(name == "prompt" for name, _ in visit.query):
        return None
    fields = {"prompt": visit.given("prompt"), "project": visit.given("project")}
    return await visit.call("preview_reminder", **fields)


def _item(delivery: Delivery, sessions: dict[tuple[str, str], str]) -> SeenItem:
    is_reminder = delivery.event in REMINDERS
    return SeenItem(
        delivery=delivery,
        why=WHY.get(delivery.event, delivery.event),
        query=None if is_reminder else delivery.query,
        places=places_of(delivery.shown),
        session_link=sessions.get((delivery.client, delivery.session)),
    )


async def _captured(visit: Visit, deliveries: tuple[Delivery, ...]) -> dict[tuple[str, str], str]:
    """Return links to the conversations of the sessions that were reminded, where they are kept."""
    sessions = {(each.client, each.session) for each in deliveries if each.event in REMINDERS}
    links = dict[tuple[str, str], str]()
    for client, session in sessions:
        conversation_id = session_conversation(
            visit.principal.organization_id, source=client, session=session
        )
        try:
            await visit.call("get_conversation", conversation_id=conversation_id, message_limit=1)
        except (NotFoundError, InvalidRequestError):
            continue
        links[client, session] = f"/conversations/{conversation_id}"
    return links


VIEWS = (
    View(
        path="/seen",
        template="seen.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="What agents saw"),
    ),
)
ACTS: tuple[Act, ...] = ()
