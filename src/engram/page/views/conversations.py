"""The list of conversations, filtered and sorted by its address."""

from __future__ import annotations

from engram.model.conversation import ConversationPage
from engram.model.value import Value
from engram.page.view import Act, Menu, View
from engram.page.visit import Visit

PAGE = 50
FIELDS = ("agent_id", "project", "sort", "order", "offset")


class ConversationsPage(Value):
    """One page of conversations, and the filters that chose it."""

    found: ConversationPage
    filters: dict[str, str]
    offset: int
    sort: str


async def load(visit: Visit) -> ConversationsPage:
    """Return a page of conversations, last used first unless the address says otherwise."""
    given = {name: visit.given(name) for name in FIELDS}
    tags = visit.all_given("tags")
    found = await visit.call("list_conversations", limit=PAGE, tags=tags or None, **given)
    filters = {name: value for name in ("project", "agent_id") if (value := given[name])}
    return ConversationsPage(
        found=found,
        filters={**filters, **({"tags": ", ".join(tags)} if tags else {})},
        offset=int(given["offset"] or 0),
        sort=given["sort"] or "updated_at",
    )


VIEWS = (
    View(
        path="/conversations",
        template="conversations.html",
        load=load,
        scopes=("read",),
        menu=Menu(label="Conversations"),
    ),
)
ACTS: tuple[Act, ...] = ()
