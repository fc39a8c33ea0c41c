"""Build the results of an answer from the messages and memories that were chosen and read."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from engram.model.conversation import Message
from engram.model.ids import ConversationKey, chunk_id
from engram.model.memory import Memory
from engram.model.search import FoundMessage, Loaded, SearchRequest, SearchResult
from engram.offload import offload
from engram.search.choose import Chosen
from engram.search.pack import Group, Packed
from engram.search.score import Scored, Scoring
from engram.storage.organization import OrganizationStore
from engram.text.excerpts import tokens_of
from engram.text.windows import Window, window, window_numbers_holding, window_text


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
    explained = chosen.scoring if request.explain else None
    if request.detail == "window":
        return await _deliver_windows(chosen.packed.handles, loaded, request, store, explained)
    return await offload(
        partial(_deliver_packed, chosen.packed, loaded, request, explained),
        characters=_characters(loaded.memories.values(), request),
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


def _deliver_packed(
    packed: Packed, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> Delivered:
    """Return texts and handles, merged by the rank of their best message."""
    handles = deque(choose_windows(packed.handles, last_sequences=_last_sequences(loaded)))
    results: list[SearchResult] = []
    for group in packed.groups:
        result = _group_result(group, loaded, request, explained)
        if result is None:
            continue
        while handles and handles[0].item.order > group.items[0].order:
            results.append(_handle(handles.popleft(), loaded, request))
        results.append(result)
    results += (_handle(shown, loaded, request) for shown in handles)
    return Delivered(
        results=tuple(results),
        tokens=sum(map(_tokens, results)),
        is_truncated=packed.is_truncated,
    )


async def _deliver_windows(
    ranked: Sequence[Scored],
    loaded: Loaded,
    request: SearchRequest,
    store: OrganizationStore,
    explained: Scoring | None,
) -> Delivered:
    """Return whole windows, with handles for those that exceed the token budget."""
    chosen = choose_windows(ranked, last_sequences=_last_sequences(loaded))
    scored = {(item.conversation, item.sequence): item for item in ranked}
    results: list[SearchResult] = []
    tokens = 0
    for shown in chosen[: request.limit]:
        key = shown.item.conversation
        if _is_document(loaded, key):
            sequence = shown.item.sequence
            chunks = await store.load_range(key, start=sequence, end=sequence)
            found = [_found(chunk, shown.item, explained) for chunk in chunks]
            result = replace(
                _handle(shown, loaded, request), messages=tuple(found), is_handle=False
            )
        elif key in loaded.memories:
            result = await offload(
                partial(_memory_result, shown.item, loaded, request, explained),
                characters=_characters([loaded.memories[key]], request),
            )
        else:
            messages = await store.load_range(key, start=shown.window.start, end=shown.window.end)
            found = [
                _found(message, scored.get((key, message.sequence)), explained)
                for message in messages
            ]
            result = _window_result(shown, found, loaded, request)
        if tokens + _tokens(result) > request.token_budget:
            result = (
                _without_text(result) if result.kind == "note" else _handle(shown, loaded, request)
            )
        tokens += _tokens(result)
        results.append(result)
    is_truncated = len(chosen) > len(results) or any(result.is_handle for result in results)
    return Delivered(results=tuple(results), tokens=tokens, is_truncated=is_truncated)


def _group_result(
    group: Group, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> SearchResult | None:
    """Return the result of a group; None if it has been deleted meanwhile."""
    memory = loaded.memories.get(group.conversation)
    if memory is not None and not _is_document(loaded, group.conversation):
        return _memory_result(group.items[0], loaded, request, explained)
    owner = memory or loaded.conversations.get(group.conversation)
    messages = loaded.messages
    found = tuple(
        _found(messages[item.key], item, explained) for item in group.items if item.key in messages
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


def _memory_result(
    item: Scored, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> SearchResult:
    # Imported here because many searches find no memory.
    from engram.text.analyse import query_terms  # noqa: PLC0415
    from engram.text.chunks import chunks_of, matched_chunk  # noqa: PLC0415

    memory = loaded.memories[item.conversation]
    chunks = chunks_of(memory)
    terms = frozenset(query_terms(request.query) if len(chunks) > 1 else ())
    return SearchResult(
        kind="note",
        score=item.score,
        chunk_id=matched_chunk(chunks, terms).id,
        owner=memory,
        start_sequence=item.sequence,
        end_sequence=item.sequence,
        chunk_text=memory.content,
        breakdown=None if explained is None else explained.explain(item),
    )


def _window_result(
    shown: ChosenWindow, found: Sequence[FoundMessage], loaded: Loaded, request: SearchRequest
) -> SearchResult:
    return replace(
        _handle(shown, loaded, request),
        messages=tuple(found),
        chunk_text=window_text(item.message for item in found),
        is_handle=False,
    )


def _handle(shown: ChosenWindow, loaded: Loaded, request: SearchRequest) -> SearchResult:
    key, sequence = shown.item.conversation, shown.item.sequence
    if _is_document(loaded, key):
        document = loaded.memories[key]
        return SearchResult(
            kind="document",
            score=shown.item.score,
            chunk_id=chunk_id(document.id, start=sequence, end=sequence),
            owner=document,
            start_sequence=sequence,
            end_sequence=sequence,
            is_handle=True,
        )
    if key in loaded.memories:
        return _without_text(_memory_result(shown.item, loaded, request, None))
    conversation = loaded.conversations[key]
    start, end = shown.window.start, shown.window.end
    return SearchResult(
        kind="conversation",
        score=shown.item.score,
        chunk_id=chunk_id(conversation.id, start=start, end=end),
        owner=conversation,
        start_sequence=start,
        end_sequence=end,
        is_handle=True,
    )


def _without_text(memory: SearchResult) -> SearchResult:
    return replace(memory, chunk_text=None, breakdown=None, is_handle=True)


def _found(message: Message, item: Scored | None, explained: Scoring | None) -> FoundMessage:
    """Return a message with its score; 0 for a neighbour that is no candidate itself."""
    if item is None:
        return FoundMessage(message=message, score=0.0)
    breakdown = None if explained is None else explained.explain(item)
    return FoundMessage(message=message, score=item.score, breakdown=breakdown)


def _characters(memories: Iterable[Memory], request: SearchRequest) -> int:
    """Return how much text is analysed to find the matching chunks of memories."""
    return len(request.query) + sum(len(memory.content) for memory in memories)


def _is_document(loaded: Loaded, key: ConversationKey) -> bool:
    return key in loaded.memories and key in loaded.chunk_counts


def _tokens(result: SearchResult) -> int:
    """Return the cost of a result; a window's text repeats its messages, and both are counted."""
    messages = sum(tokens_of(len(found.message.content)) for found in result.messages)
    return messages + tokens_of(len(result.chunk_text or ""))


def _last_sequences(loaded: Loaded) -> dict[ConversationKey, int]:
    """Return the message count of each conversation, the chunk count of each document, 1 for a memory."""
    lengths = {key: found.message_count for key, found in loaded.conversations.items()}
    chunks = {key: max(1, loaded.chunk_counts.get(key, 1)) for key in loaded.memories}
    return lengths | chunks
