"""Remind an agent that did not ask: what a new session should know, or what answers a prompt.

Silence is the default. A prompt gets only what a search would call relevant, first from its own project; a
text that the session has seen, or that says the prompt again, is not repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from engram.model.conversation import Conversation, Message
from engram.model.fields import DEFAULT_PROJECT
from engram.model.ids import CONVERSATION_PREFIX, conversation_reference
from engram.model.memory import Memory
from engram.model.reminder import Reminder, ReminderRequest, ShownText
from engram.model.search import Kind, SearchRequest, SearchResult
from engram.search.candidates import SearchSession
from engram.search.overview import choose_overview
from engram.search.pipeline import NOTHING_RELEVANT, search
from engram.storage.search.overview import OverviewQuery
from engram.text.excerpts import cut
from engram.text.fence import CUT_TOKENS_MIN, FencedText, empty_element, fence
from engram.text.tokens import count_tokens

KINDS: tuple[Kind, ...] = ("conversation", "note", "document")
RESULTS_MAX = 12
"""A prompt is helped by the few best texts; more would be skimmed."""

SEARCH_TOKENS = 600
"""Room for more than is shown, since some of it may have been seen; of texts of half of it, parts come."""

OVERVIEW_ENTRIES = 8
ENTRY_CHARACTERS = 400
"""Of a longer text, a new session sees the beginning."""

TITLE_CHARACTERS = 80
_BYTES_PER_TOKEN_MIN = 2
_SHRINK = 0.9


class StoredText(NamedTuple):
    """A stored text that could be shown."""

    id: str
    owner: str
    """The conversation or memory it belongs to."""
    attributes: Mapping[str, str]
    """Of the owner; texts of one owner are shown together."""
    content: str
    speaker: str = ""
    """Who said it, if it is a message."""
    sequence: int = 1
    left_out: int = 0
    """How many characters longer it is."""

    @property
    def place(self) -> str:
        """Return where it is stored."""
        return f"{self.owner}#{self.sequence}" if self.speaker else self.owner

    @property
    def digest(self) -> str:
        """Identifies the text as it is shown."""
        return sha256(self.content.encode("utf-8", "replace")).hexdigest()[:16]


async def remind(request: ReminderRequest, session: SearchSession) -> Reminder:
    """Return what an agent needs to be told now, within its bound of bytes."""
    if request.query is None:
        texts, head = await _for_start(request, session), _head(request)
    else:
        texts, head = await _for_prompt(request, request.query, session), ()
    fresh = [text for text in texts if _is_wanted(text, request)]
    return fit_texts(fresh, bytes_max=request.bytes_max, head=head)


def _is_wanted(text: StoredText, request: ReminderRequest) -> bool:
    return text.owner != request.without and text.digest not in request.seen


async def _for_prompt(
    request: ReminderRequest, query: str, session: SearchSession
) -> Sequence[StoredText]:
    """Return what is relevant to a prompt in its project, or else anywhere."""
    scopes = dict.fromkeys((request.project, None))
    for project in scopes:
        found = await _relevant(query, project, session)
        wanted = [text for text in found if text.content.strip() != query.strip()]
        if wanted:
            return wanted
    return ()


async def _relevant(query: str, project: str | None, session: SearchSession) -> list[StoredText]:
    answer = await search(
        SearchRequest(
            query=query,
            project=project,
            kinds=KINDS,
            limit=RESULTS_MAX,
            token_budget=SEARCH_TOKENS,
        ),
        session,
    )
    if answer.note == NOTHING_RELEVANT:
        return []
    texts = [text for result in answer.results for text in _texts_of(result)]
    return [text for _, text in sorted(texts, key=lambda each: -each[0])]


def _texts_of(result: SearchResult) -> Iterator[tuple[float, StoredText]]:
    """Yield the texts of a result with their scores; none for a handle."""
    owner = result.owner
    if isinstance(owner, Memory):
        if result.chunk_text is not None:
            yield result.score, _of_memory(owner, result.chunk_text)
        for found in result.messages:
            yield found.score, _of_memory(owner, found.message.content)
        return
    for found in result.messages:
        # What tools printed is found by its many words, and seldom says what was decided.
        if found.message.role != "tool":
            yield found.score, _of_message(owner, found.message)


async def _for_start(request: ReminderRequest, session: SearchSession) -> Sequence[StoredText]:
    """Return what a new session of a project should know, and what holds in all; else of others."""
    own = await _overview(request.project, KINDS, session)
    general = await _overview(DEFAULT_PROJECT, ("note", "document"), session)
    found = list({text.id: text for text in (*own, *general)}.values())
    if any(_is_wanted(text, request) for text in found):
        return found
    return await _overview(None, KINDS, session)


async def _overview(
    project: str | None, kinds: Sequence[Kind], session: SearchSession
) -> list[StoredText]:
    query = OverviewQuery(project=project, kinds=kinds, now=session.now)
    choose = partial(choose_overview, limit=OVERVIEW_ENTRIES)
    choice, loaded = await session.store.overview(query, choose=choose)
    texts = list[StoredText]()
    for item in choice.candidates:
        memory = loaded.memories.get(item.conversation)
        if memory is not None:
            texts.append(_shortened(_of_memory(memory, memory.content, reason=item.reason)))
            continue
        message = loaded.messages[item.key]
        conversation = loaded.conversations[item.conversation]
        texts.append(_shortened(_of_message(conversation, message, is_titled=True)))
    return texts


def _of_memory(memory: Memory, content: str, *, reason: str | None = None) -> StoredText:
    given = {
        "id": memory.id,
        "project": None if memory.project == DEFAULT_PROJECT else memory.project,
        "category": memory.category,
        "reason": reason,
        "date": (memory.valid_from or memory.created_at).date().isoformat(),
    }
    return StoredText(memory.id, memory.id, _given(given), content)


def _of_message(
    conversation: Conversation, message: Message, *, is_titled: bool = False
) -> StoredText:
    said_at = message.occurred_at or message.created_at
    title = conversation.title if is_titled else None
    given = {
        "id": CONVERSATION_PREFIX + conversation_reference(conversation.id),
        "title": cut(title, TITLE_CHARACTERS).text if title else None,
        "date": said_at.date().isoformat(),
    }
    return StoredText(
        message.id,
        conversation.id,
        _given(given),
        message.content,
        speaker=message.name or message.role,
        sequence=message.sequence,
    )


def _given(attributes: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value}


def _shortened(text: StoredText) -> StoredText:
    shown = cut(text.content, ENTRY_CHARACTERS).text
    return text._replace(content=shown, left_out=len(text.content) - len(shown))


def _head(request: ReminderRequest) -> tuple[str, ...]:
    if request.project in (None, DEFAULT_PROJECT):
        return ()
    return (empty_element("project", {"name": request.project}),)


def fit_texts(texts: Iterable[StoredText], *, bytes_max: int, head: Sequence[str] = ()) -> Reminder:
    """Fence the texts that fit the bound, best first; its unit is bytes, as clients count.

    One that does not fit makes room for shorter ones after it. If none fits, the beginning of the first is shown.
    """
    unique = list({text.digest: text for text in texts}.values())
    chosen, context = list[StoredText](), ""
    for text in unique:
        fitting = _whole([*chosen, text], bytes_max=bytes_max, head=head)
        if fitting is not None:
            chosen, context = [*chosen, text], fitting
    if chosen:
        return _reminder(context, chosen)
    return _cut_to(unique[0], bytes_max=bytes_max, head=head) if unique else Reminder()


def _whole(texts: Sequence[StoredText], *, bytes_max: int, head: Sequence[str]) -> str | None:
    """Return the block of some texts, or None if the bound does not allow all of them."""
    groups = _grouped(texts)
    # No token has less than a byte, so this budget cuts nothing that the bound would not.
    fenced = fence(groups, token_budget=bytes_max, head=head)
    is_whole = [len(group.content) for group in groups] == [*fenced.shown]
    return fenced.text if is_whole and len(_encoded(fenced.text)) <= bytes_max else None


def _cut_to(text: StoredText, *, bytes_max: int, head: Sequence[str]) -> Reminder:
    budget = bytes_max // _BYTES_PER_TOKEN_MIN
    while budget > CUT_TOKENS_MIN:
        fenced = fence(_grouped([text]), token_budget=budget, head=head)
        if fenced.shown and len(_encoded(fenced.text)) <= bytes_max:
            return _reminder(fenced.text, [text])
        budget = int(budget * _SHRINK)
    return Reminder()


def _grouped(texts: Sequence[StoredText]) -> list[FencedText]:
    """Return what is shown of each owner, the best first, its messages in their order."""
    by_owner = dict[str, list[StoredText]]()
    for text in texts:
        by_owner.setdefault(text.owner, []).append(text)
    return [
        FencedText(
            group[0].attributes,
            "\n".join(map(_line, sorted(group, key=lambda each: each.sequence))),
            sum(each.left_out for each in group),
        )
        for group in by_owner.values()
    ]


def _line(text: StoredText) -> str:
    return f"#{text.sequence} {text.speaker}: {text.content}" if text.speaker else text.content


def _reminder(context: str, texts: Iterable[StoredText]) -> Reminder:
    shown = tuple(ShownText(id=text.id, place=text.place, digest=text.digest) for text in texts)
    return Reminder(context=context, shown=shown, tokens=count_tokens(context))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
