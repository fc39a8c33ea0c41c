"""Editing a conversation's title, tags and project from the reader, and undoing that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from engram.errors import InvalidRequestError
from engram.model.conversation import Conversation, MessagePage
from engram.model.value import Value
from engram.page.cookies import can_leave
from engram.page.view import Act, Done, Shown, Undo, View
from engram.page.visit import Visit

EDITED = ("title", "tags", "project")
BEFORE = "before"
"""The field of an undo: the values to restore, as JSON. A form would change the ends of lines."""


class EditedPage(Value):
    """What was done, where the previous values are too long for a notice."""

    conversation_id: str
    notice: str
    undo: Undo


async def edit(visit: Visit) -> Done | Shown:
    """Change what differs from what the form has shown."""
    conversation = await _find(visit)
    return await _change(visit, conversation, _sent_changes(visit, conversation))


async def restore(visit: Visit) -> Done | Shown:
    """Give a conversation the values that an edit has replaced."""
    return await _change(visit, await _find(visit), _read_before(visit.sent(BEFORE)))


async def _find(visit: Visit) -> Conversation:
    found: MessagePage = await visit.call(
        "get_conversation", conversation_id=visit.parameters["conversation_id"], message_limit=1
    )
    return found.conversation


def _sent_changes(visit: Visit, conversation: Conversation) -> dict[str, Any]:
    """Return the fields of the form that were changed.

    The form shows a title on one line and loses the blanks around everything, so what differs in
    these alone is left as it is stored.
    """
    changes = dict[str, Any]()
    title = " ".join(visit.sent("title").split())
    if title != " ".join((conversation.title or "").split()):
        changes["title"] = title or None
    tags = {line.strip(): None for line in visit.sent("tags").splitlines() if line.strip()}
    if set(tags) != {tag.strip() for tag in conversation.tags}:
        changes["tags"] = list(tags)
    project = visit.sent("project").strip()
    if project != conversation.project.strip():
        changes["project"] = project
    return changes


def _read_before(encoded: str) -> dict[str, Any]:
    try:
        before = json.loads(encoded)
        return {name: before[name] for name in EDITED if name in before}
    except (ValueError, TypeError) as exc:
        raise InvalidRequestError("must be a JSON object", field=BEFORE) from exc


async def _change(
    visit: Visit, conversation: Conversation, changes: Mapping[str, Any]
) -> Done | Shown:
    here = f"/conversations/{conversation.id}"
    if not changes:
        return Done(to=here, notice="Nothing was changed.")
    # A call leaves out what is None, but here that removes the title.
    removed = {"title": None} if changes.get("title", "") is None else {}
    given = {name: value for name, value in changes.items() if name not in removed}
    await visit.call("edit_conversation", removed, conversation_id=conversation.id, **given)
    before = {name: getattr(conversation, name) for name in changes}
    undo = Undo(action=f"{here}/restore", fields={BEFORE: json.dumps(before)})
    return _outcome(conversation, _notice(changes), undo)


def _notice(changes: Mapping[str, Any]) -> str:
    *others, last = [name for name in EDITED if name in changes]
    names = f"{', '.join(others)} and {last}" if others else last
    return f"Changed the {names}."


def _outcome(conversation: Conversation, notice: str, undo: Undo) -> Done | Shown:
    done = Done(to=f"/conversations/{conversation.id}", notice=notice, undo=undo)
    if can_leave(done.as_notice()):
        return done
    page = EditedPage(conversation_id=conversation.id, notice=notice, undo=undo)
    return Shown(template="conversation_edited.html", page=page)


VIEWS: tuple[View, ...] = ()
ACTS = (
    Act(path="/conversations/{conversation_id}/edit", run=edit, scopes=("read", "write")),
    Act(path="/conversations/{conversation_id}/restore", run=restore, scopes=("read", "write")),
)
