"""Make the messages and memories chosen and read the results of an answer, in the detail asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engram.model.conversation import Message
from engram.model.ids import ConversationKey, chunk_id
from engram.model.memory import Memory
from engram.model.search import FoundMessage, Loaded, SearchRequest, SearchResult
from engram.offload import offload
from engram.search.budget import Group, Packed
from engram.search.choose import Chosen
from engram.search.fuse import Scoring
from engram.search.ranking import Scored
from engram.search.windows import ChosenWindow, choose_windows
from engram.storage.ports import OrganizationStore
from engram.text.tokens import tokens_of
from engram.text.windows import window_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The results, what their text costs, and whether more was found than they hold."""

    results: tuple[SearchResult, ...]
    tokens: int
    is_truncated: bool


async def deliver(
    chosen: Chosen, loaded: Loaded, *, request: SearchRequest, store: OrganizationStore
) -> Delivered:
    """Turn what was chosen and read into results, in the detail asked for."""
    explained = chosen.scoring if request.explain else None
    if request.detail == "window":
        return await _deliver_windows(chosen.packed.handles, loaded, request, store, explained)
    return await offload(
        partial(_deliver_packed, chosen.packed, loaded, request, explained),
        characters=_characters(loaded.memories.values(), request),
    )


def _deliver_packed(
    packed: Packed, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> Delivered:
    """Return texts and handles, each where its best message stands in the ranking."""
    handles = deque(choose_windows(packed.handles, last_sequences=_lengths(loaded)))
    results: list[SearchResult] = []
    for group in packed.groups:
        result = _result_of(group, loaded, request, explained)
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
    chosen = choose_windows(ranked, last_sequences=_lengths(loaded))
    scored = {_place(item): item for item in ranked}
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
                partial(_memory, shown.item, loaded, request, explained),
                characters=_characters([loaded.memories[key]], request),
            )
        else:
            messages = await store.load_range(key, start=shown.window.start, end=shown.window.end)
            found = [
                _found(message, scored.get((key, message.sequence)), explained)
                for message in messages
            ]
            result = _whole_window(shown, found, loaded, request)
        if tokens + _tokens(result) > request.token_budget:
            result = (
                _without_text(result) if result.kind == "note" else _handle(shown, loaded, request)
            )
        tokens += _tokens(result)
        results.append(result)
    is_truncated = len(chosen) > len(results) or any(result.is_handle for result in results)
    return Delivered(results=tuple(results), tokens=tokens, is_truncated=is_truncated)


def _result_of(
    group: Group, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> SearchResult | None:
    """Return the result of a group; None when it is not there any more."""
    memory = loaded.memories.get(group.conversation)
    if memory is not None and not _is_document(loaded, group.conversation):
        return _memory(group.items[0], loaded, request, explained)
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


def _memory(
    item: Scored, loaded: Loaded, request: SearchRequest, explained: Scoring | None
) -> SearchResult:
    # Not every search finds some.
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


def _whole_window(
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
        return _without_text(_memory(shown.item, loaded, request, None))
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
    """Return a message with its score; a neighbour that was not found itself has none."""
    if item is None:
        return FoundMessage(message=message, score=0.0)
    breakdown = None if explained is None else explained.explain(item)
    return FoundMessage(message=message, score=item.score, breakdown=breakdown)


def _characters(memories: Iterable[Memory], request: SearchRequest) -> int:
    """Return how much text has to be read to tell which chunks of memories match."""
    return len(request.query) + sum(len(memory.content) for memory in memories)


def _is_document(loaded: Loaded, key: ConversationKey) -> bool:
    return key in loaded.memories and key in loaded.chunk_counts


def _tokens(result: SearchResult) -> int:
    """Return what a result's texts cost; a window's text repeats its messages and is paid for too."""
    messages = sum(tokens_of(len(found.message.content)) for found in result.messages)
    return messages + tokens_of(len(result.chunk_text or ""))


def _place(item: Scored) -> tuple[ConversationKey, int]:
    return item.conversation, item.sequence


def _lengths(loaded: Loaded) -> dict[ConversationKey, int]:
    """Return how many messages each conversation has, and chunks a document; a memory has one."""
    lengths = {key: found.message_count for key, found in loaded.conversations.items()}
    chunks = {key: max(1, loaded.chunk_counts.get(key, 1)) for key in loaded.memories}
    return lengths | chunks
