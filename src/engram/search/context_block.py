"""Present the entries of a context as one fenced block, or as one line if there are none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram import limits
from engram.clock import format_time
from engram.model.fields import DEFAULT_PROJECT
from engram.model.recall import Context, ContextEntry, ContextRequest, CurrentProject, NearMiss
from engram.model.value import Value, replace
from engram.text.excerpts import cut, tokens_of
from engram.text.fence import FencedText, empty_element, fence
from engram.yielding import offload

NOTHING_FOUND = "No matching context found."
NOTHING_STORED = "Memory has nothing for a new session yet."


class Found(Value):
    """What belongs in a context, before its budget."""

    entries: Sequence[ContextEntry]
    below_cut: int = 0
    nearest: tuple[NearMiss, ...] = ()
    projects: tuple[CurrentProject, ...] = ()
    degraded: tuple[str, ...] = ()


async def present(found: Found, request: ContextRequest) -> Context:
    """Return the entries in one block, or one line if there are none."""
    if not found.entries:
        text = _nothing(found, request)
        return Context(
            context=text,
            entries=(),
            used_tokens=tokens_of(len(text)),
            omitted=0,
            below_cut=found.below_cut,
            nearest=found.nearest,
            degraded=found.degraded,
        )
    return await offload(
        partial(_fence, found, token_budget=request.token_budget),
        characters=sum(len(entry.content) for entry in found.entries),
    )


def _nothing(found: Found, request: ContextRequest) -> str:
    if request.query is None:
        return NOTHING_STORED
    if not found.nearest:
        return NOTHING_FOUND
    handles = ", ".join(
        " ".join(filter(None, (miss.id, miss.category, miss.date.date().isoformat())))
        for miss in found.nearest
    )
    return f"{NOTHING_FOUND} {found.below_cut} below the cut (min_score=0 shows them), nearest: {handles}"


def _fence(found: Found, *, token_budget: int) -> Context:
    texts = [_text(entry) for entry in found.entries]
    head = [
        empty_element(
            "project", {"name": each.project, "active": each.active_at.date().isoformat()}
        )
        for each in found.projects
    ]
    fenced = fence(texts, token_budget=token_budget, head=head)
    return Context(
        context=fenced.text,
        entries=tuple(
            replace(entry, content=entry.content[:shown], truncated=shown < len(entry.content))
            for entry, shown in zip(found.entries, fenced.shown, strict=False)
        ),
        used_tokens=fenced.used_tokens,
        omitted=fenced.omitted,
        below_cut=found.below_cut,
        projects=found.projects,
        degraded=found.degraded,
    )


def _text(entry: ContextEntry) -> FencedText:
    """Return an entry as an XML element; of a long text in an overview, the beginning."""
    content = entry.content
    if entry.reason is not None:
        content = cut(content, limits.OVERVIEW_ENTRY_CHARACTERS).text
    return FencedText(
        attributes=_attributes(entry),
        content=content,
        characters_left_out=len(entry.content) - len(content),
    )


def _attributes(entry: ContextEntry) -> dict[str, str]:
    """Return the attributes of an entry's XML element."""
    given = {
        "id": entry.id,
        "conversation_id": entry.conversation_id,
        "project": None if entry.project == DEFAULT_PROJECT else entry.project,
        "category": entry.category,
        "source": entry.source,
        "date": format_time(entry.date),
        "score": None if entry.score is None else f"{entry.score:.2f}",
        "reason": entry.reason,
    }
    return {name: value for name, value in given.items() if value is not None}
