"""Make the messages chosen and read the results of an answer, in the detail asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engram.model.conversation import Conversation, Message
from engram.model.ids import ConversationKey, MessageKey, chunk_id
from engram.model.search import FoundMessage, Loaded, SearchRequest, SearchResult
from engram.retrieval.budget import Group, Packed
from engram.retrieval.choose import Chosen
from engram.retrieval.fuse import Scored, Scoring, tokens_of
from engram.retrieval.windows import ChosenWindow, choose_windows
from engram.storage.ports import OrganizationStore
from engram.text.windows import window_text

Conversations = Mapping[ConversationKey, Conversation]


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
        return await _deliver_windows(
            chosen.ranked, loaded.conversations, request, store, explained
        )
    return _deliver_packed(chosen.packed, loaded, explained)


def _deliver_packed(packed: Packed, loaded: Loaded, explained: Scoring | None) -> Delivered:
    results = [
        _result_of(group, loaded.messages, loaded.conversations[group.conversation], explained)
        for group in packed.groups
        if group.conversation in loaded.conversations
    ]
    results = [result for result in results if result.messages]
    return Delivered(
        results=(*results, *_handles(packed.handles, loaded.conversations)),
        tokens=sum(map(_tokens, results)),
        is_truncated=packed.is_truncated,
    )


async def _deliver_windows(
    ranked: Sequence[Scored],
    conversations: Conversations,
    request: SearchRequest,
    store: OrganizationStore,
    explained: Scoring | None,
) -> Delivered:
    chosen = choose_windows(ranked, last_sequences=_lengths(conversations))
    scored = {_place(item): item for item in ranked}
    results: list[SearchResult] = []
    tokens = 0
    for shown in chosen[: request.limit]:
        key = shown.item.conversation
        messages = await store.load_range(key, start=shown.window.start, end=shown.window.end)
        found = [
            _found(message, scored.get((key, message.sequence)), explained) for message in messages
        ]
        result = _whole_window(shown, found, conversations[key])
        if tokens + _tokens(result) > request.token_budget:
            result = _handle(shown, conversations[key])
        tokens += _tokens(result)
        results.append(result)
    is_truncated = len(chosen) > len(results) or any(result.is_handle for result in results)
    return Delivered(results=tuple(results), tokens=tokens, is_truncated=is_truncated)


def _result_of(
    group: Group,
    messages: Mapping[MessageKey, Message],
    conversation: Conversation,
    explained: Scoring | None,
) -> SearchResult:
    found = tuple(
        _found(messages[item.key], item, explained) for item in group.items if item.key in messages
    )
    sequences = [item.sequence for item in group.items]
    start, end = min(sequences), max(sequences)
    return SearchResult(
        kind="conversation",
        score=max(item.score for item in group.items),
        chunk_id=chunk_id(conversation.id, start=start, end=end),
        conversation=conversation,
        start_sequence=start,
        end_sequence=end,
        messages=found,
    )


def _whole_window(
    shown: ChosenWindow, found: Sequence[FoundMessage], conversation: Conversation
) -> SearchResult:
    return replace(
        _handle(shown, conversation),
        messages=tuple(found),
        chunk_text=window_text(item.message for item in found),
        is_handle=False,
    )


def _handles(items: Sequence[Scored], conversations: Conversations) -> list[SearchResult]:
    chosen = choose_windows(items, last_sequences=_lengths(conversations))
    return [_handle(shown, conversations[shown.item.conversation]) for shown in chosen]


def _handle(shown: ChosenWindow, conversation: Conversation) -> SearchResult:
    start, end = shown.window.start, shown.window.end
    return SearchResult(
        kind="conversation",
        score=shown.item.score,
        chunk_id=chunk_id(conversation.id, start=start, end=end),
        conversation=conversation,
        start_sequence=start,
        end_sequence=end,
        messages=(),
        is_handle=True,
    )


def _found(message: Message, item: Scored | None, explained: Scoring | None) -> FoundMessage:
    """Return a message with its score; a neighbour that was not found itself has none."""
    if item is None:
        return FoundMessage(message=message, score=0.0)
    breakdown = None if explained is None else explained.explain(item)
    return FoundMessage(message=message, score=item.score, breakdown=breakdown)


def _tokens(result: SearchResult) -> int:
    """Return what a result's texts cost; a window's text repeats its messages and is paid for too."""
    messages = sum(tokens_of(len(found.message.content)) for found in result.messages)
    return messages + tokens_of(len(result.chunk_text or ""))


def _place(item: Scored) -> tuple[ConversationKey, int]:
    return item.conversation, item.sequence


def _lengths(conversations: Conversations) -> dict[ConversationKey, int]:
    return {key: conversation.message_count for key, conversation in conversations.items()}
