"""Build the results of an answer from the messages and memories that were chosen and read."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from engram.model.conversation import Message
from engram.model.ids import ConversationKey, chunk_id
from engram.model.memory import Memory
from engram.model.search import FoundMessage, Loaded, SearchRequest, SearchResult
from engram.model.value import replace
from engram.search.choose import Chosen
from engram.search.pack import Group, Packed
from engram.search.score import Scored, Scoring
from engram.storage.organization import OrganizationStore
from engram.text.excerpts import tokens_of
from engram.text.windows import Window, window, window_numbers_holding, window_text
from engram.yielding import offload


class Delivered(NamedTuple):
    """The results, the cost of their text, and whether more was found than they contain."""

    results: tuple[SearchResult, ...]
    tokens: int
    is_truncated: bool


class ChosenWindow(NamedTuple):
    """A window, and the best message in it."""

    item: Scored
    window: Window


async def deliver(
    chosen: Chosen, loaded: Loaded, *, request: SearchRequest, store: OrganizationStore
) -> Delivered:
    """Build results in the detail that the request asks for."""
    builder = _ResultBuilder(loaded, request, chosen.scoring if request.explain else None)
    if request.detail == "window":
        return await _deliver_windows(chosen.packed.handles, builder, store)
    return await offload(
        partial(_deliver_packed, chosen.packed, builder),
        characters=builder.characters(loaded.memories.values()),
    )


def choose_windows(
    ranked: Sequence[Scored], *, last_sequences: Mapping[ConversationKey, int]
) -> list[ChosenWindow]:
    """Choose a window for each message, best first, unless one of its windows is chosen already.

    Of a message's windows the one with the highest total is chosen. Messages of conversations
    missing from `last_sequences` are left out.
    """
    present = [item for item in ranked if item.conversation in last_sequences]
    totals: defaultdict[tuple[ConversationKey, int], float] = defaultdict(float)
    for item in present:
        for each in _windows_of(item, last_sequences):
            totals[each] += item.order
    chosen: dict[tuple[ConversationKey, int], Scored] = {}
    for item in present:
        windows = _windows_of(item, last_sequences)
        if not any(each in chosen for each in windows):
            chosen[max(windows, key=lambda each: (totals[each], -each[1]))] = item
    return [
        ChosenWindow(item, window(number, last_sequence=last_sequences[conversation]))
        for (conversation, number), item in chosen.items()
    ]


def _windows_of(
    item: Scored, last_sequences: Mapping[ConversationKey, int]
) -> list[tuple[ConversationKey, int]]:
    """Return the windows that contain a message, each as its conversation and number."""
    # The message may have been appended after the conversation's length was read.
    last = max(last_sequences[item.conversation], item.sequence)
    numbers = window_numbers_holding(item.sequence, last_sequence=last)
    return [(item.conversation, number) for number in numbers]


def _deliver_packed(packed: Packed, builder: _ResultBuilder) -> Delivered:
    """Return texts and handles, merged by the rank of their best message."""
    handles = deque(choose_windows(packed.handles, last_sequences=builder.last_sequences()))
    results: list[SearchResult] = []
    for group in packed.groups:
        result = builder.group(group)
        if result is None:
            continue
        while handles and handles[0].item.order > group.items[0].order:
            results.append(builder.handle(handles.popleft()))
        results.append(result)
    results += map(builder.handle, handles)
    return Delivered(
        results=tuple(results),
        tokens=sum(map(_tokens, results)),
        is_truncated=packed.is_truncated,
    )


async def _deliver_windows(
    ranked: Sequence[Scored], builder: _ResultBuilder, store: OrganizationStore
) -> Delivered:
    """Return whole windows, with handles for those that exceed the token budget."""
    chosen = choose_windows(ranked, last_sequences=builder.last_sequences())
    scored = {(item.conversation, item.sequence): item for item in ranked}
    results: list[SearchResult] = []
    tokens = 0
    for shown in chosen[: builder.request.limit]:
        result = await _window_result(shown, scored, builder, store)
        if tokens + _tokens(result) > builder.request.token_budget:
            result = _without_text(result) if result.kind == "note" else builder.handle(shown)
        tokens += _tokens(result)
        results.append(result)
    is_truncated = len(chosen) > len(results) or any(result.is_handle for result in results)
    return Delivered(results=tuple(results), tokens=tokens, is_truncated=is_truncated)


async def _window_result(
    shown: ChosenWindow,
    scored: Mapping[tuple[ConversationKey, int], Scored],
    builder: _ResultBuilder,
    store: OrganizationStore,
) -> SearchResult:
    """Return a chunk of a document, a memory, or a window of a conversation, with its text."""
    key, sequence = shown.item.conversation, shown.item.sequence
    memory = builder.loaded.memories.get(key)
    if memory is not None and not builder.is_document(key):
        return await offload(
            partial(builder.memory, shown.item), characters=builder.characters([memory])
        )
    start, end = (sequence, sequence) if memory else (shown.window.start, shown.window.end)
    found = tuple(
        builder.found(message, scored.get((key, message.sequence)))
        for message in await store.load_range(key, start=start, end=end)
    )
    text = None if memory else window_text(each.message for each in found)
    return replace(builder.handle(shown), messages=found, chunk_text=text, is_handle=False)


class _ResultBuilder(NamedTuple):
    """Builds results from what was read for one search."""

    loaded: Loaded
    request: SearchRequest
    explained: Scoring | None
    """Set if the caller asked for the components of scores."""

    def group(self, group: Group) -> SearchResult | None:
        """Return the result of a group; None if it has been deleted meanwhile."""
        memory = self.loaded.memories.get(group.conversation)
        if memory is not None and not self.is_document(group.conversation):
            return self.memory(group.items[0])
        owner = memory or self.loaded.conversations.get(group.conversation)
        messages = self.loaded.messages
        found = tuple(
            self.found(messages[item.key], item) for item in group.items if item.key in messages
        )
        if owner is None or not found:
            return None
        sequences = [item.sequence for item in group.items]
        start, end = min(sequences), max(sequences)
        return SearchResult(
            kind="conversation" if memory is None else "document",
            score=max(item.score for item in group.items),
            chunk_id=chunk_id(owner.id, start=start, end=end),
            owner=owner,
            start_sequence=start,
            end_sequence=end,
            messages=found,
        )

    def memory(self, item: Scored) -> SearchResult:
        """Return the result of a memory with its text."""
        # Imported here because many searches find no memory.
        from engram.text.analyse import query_terms  # noqa: PLC0415
        from engram.text.chunks import chunks_of, matched_chunk  # noqa: PLC0415

        memory = self.loaded.memories[item.conversation]
        chunks = chunks_of(memory)
        terms = frozenset(query_terms(self.request.query) if len(chunks) > 1 else ())
        return SearchResult(
            kind="note",
            score=item.score,
            chunk_id=matched_chunk(chunks, terms).id,
            owner=memory,
            start_sequence=item.sequence,
            end_sequence=item.sequence,
            chunk_text=memory.content,
            breakdown=None if self.explained is None else self.explained.explain(item),
        )

    def handle(self, shown: ChosenWindow) -> SearchResult:
        """Return a result without its text."""
        key, start, end = shown.item.conversation, shown.window.start, shown.window.end
        memory = self.loaded.memories.get(key)
        if memory is not None and not self.is_document(key):
            return _without_text(self.memory(shown.item))
        if memory is not None:
            start = end = shown.item.sequence
        owner = memory or self.loaded.conversations[key]
        return SearchResult(
            kind="conversation" if memory is None else "document",
            score=shown.item.score,
            chunk_id=chunk_id(owner.id, start=start, end=end),
            owner=owner,
            start_sequence=start,
            end_sequence=end,
            is_handle=True,
        )

    def found(self, message: Message, item: Scored | None) -> FoundMessage:
        """Return a message with its score; 0 for a neighbour that is no candidate itself."""
        if item is None:
            return FoundMessage(message=message, score=0.0)
        breakdown = None if self.explained is None else self.explained.explain(item)
        return FoundMessage(message=message, score=item.score, breakdown=breakdown)

    def is_document(self, key: ConversationKey) -> bool:
        return key in self.loaded.memories and key in self.loaded.chunk_counts

    def characters(self, memories: Iterable[Memory]) -> int:
        """Return how much text is analysed to find the matching chunks of memories."""
        return len(self.request.query) + sum(len(memory.content) for memory in memories)

    def last_sequences(self) -> dict[ConversationKey, int]:
        """Return the messages of each conversation, the chunks of each document, 1 for a memory."""
        lengths = {key: each.message_count for key, each in self.loaded.conversations.items()}
        counts = self.loaded.chunk_counts
        return lengths | {key: max(1, counts.get(key, 1)) for key in self.loaded.memories}


def _without_text(memory: SearchResult) -> SearchResult:
    return replace(memory, chunk_text=None, breakdown=None, is_handle=True)


def _tokens(result: SearchResult) -> int:
    """Return the cost of a result; a window's text repeats its messages, and both are counted."""
    messages = sum(tokens_of(len(found.message.content)) for found in result.messages)
    return messages + tokens_of(len(result.chunk_text or ""))
