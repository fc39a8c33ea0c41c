"""Build the results of an answer from the messages and memories that were chosen and read."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from engram.model.conversation import Message
from engram.model.ids import ConversationKey, MessageKey, chunk_id
from engram.model.search import (
    CutBy,
    FoundMessage,
    Loaded,
    ScoreBreakdown,
    SearchRequest,
    SearchResult,
    TextRange,
)
from engram.model.value import Value, replace
from engram.search.choose import Chosen
from engram.search.excerpt import NearPassage, find_excerpt
from engram.search.pack import HANDLES_MAX
from engram.search.score import Scored
from engram.storage.organization import OrganizationStore
from engram.text.analyse import query_terms
from engram.text.chunks import chunks_of, matched_chunk
from engram.text.folding import fold_spaces
from engram.text.tokens import count_tokens, is_longer
from engram.text.windows import Window, window, window_numbers_holding, window_text
from engram.yielding import offload


class Delivered(NamedTuple):
    """The results, and the cost of their text."""

    results: tuple[SearchResult, ...]
    tokens: int
    cut_by: CutBy | None
    """The bound that left something out."""
    repeated: int
    """How many texts were there already."""


class ChosenWindow(NamedTuple):
    """A window, and the best message in it."""

    item: Scored
    window: Window


class _Part(NamedTuple):
    """What is delivered of a message or memory: all of it, or the part that matches."""

    item: Scored
    content: str
    range: TextRange | None


class _Fitted(NamedTuple):
    """The parts that fit the bounds, and what became of the others."""

    parts: Sequence[_Part]
    left_out: Sequence[Scored]
    cut_by: CutBy | None
    repeated: int
    tokens: int
    """Of the parts that fit."""


async def deliver(
    chosen: Chosen, loaded: Loaded, *, request: SearchRequest, store: OrganizationStore
) -> Delivered:
    """Build results in the detail that the request asks for."""
    builder = _ResultBuilder(loaded=loaded, request=request, chosen=chosen)
    if request.detail == "window" and not chosen.is_silent:
        return await _deliver_windows(chosen.packed.handles, builder, store)
    return await offload(partial(_deliver_packed, builder), characters=builder.characters)


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


def _deliver_packed(builder: _ResultBuilder) -> Delivered:
    """Return texts and handles, by the rank of their best message."""
    packed = builder.chosen.packed
    request = builder.request
    fitted = _fit(
        list(builder.parts()),
        limit=request.limit,
        token_budget=request.token_budget,
        kept=packed.kept,
    )
    texts = groupby(fitted.parts, key=lambda part: part.item.conversation)
    unshown = sorted((*packed.handles, *fitted.left_out), key=lambda item: -item.order)
    handles_max = max(len(packed.handles), HANDLES_MAX)
    handles = deque(choose_windows(unshown[:handles_max], last_sequences=builder.last_sequences()))
    results: list[SearchResult] = []
    for _, run in texts:
        parts = list(run)
        while handles and handles[0].item.order > parts[0].item.order:
            results.append(builder.handle(handles.popleft()))
        results.append(builder.text(parts))
    results += map(builder.handle, handles)
    return Delivered(
        results=tuple(results),
        tokens=fitted.tokens,
        cut_by=packed.cut_by or fitted.cut_by,
        repeated=fitted.repeated,
    )


def _fit(parts: Sequence[_Part], *, limit: int, token_budget: int, kept: frozenset[int]) -> _Fitted:
    """Return the parts that fit the limit and the budget, each text once.

    Packing estimates tokens by characters and texts by their looks; only here are they known.

    Args:
        kept: rows that others leave room for.
    """
    waiting = {part.item.row: count_tokens(part.content) for part in parts if part.item.row in kept}
    if sum(waiting.values()) > token_budget // 2:
        waiting.clear()
    fitting: list[_Part] = []
    left_out: list[Scored] = []
    cut_by: CutBy | None = None
    texts = set[str]()
    repeated = spent = 0
    for part in parts:
        waiting.pop(part.item.row, None)
        text = fold_spaces(part.content)
        if text in texts:
            repeated += 1
            continue
        tokens = count_tokens(part.content)
        is_full = len(fitting) + len(waiting) >= limit
        if is_full or spent + tokens + sum(waiting.values()) > token_budget:
            cut_by = cut_by or ("limit" if is_full else "token_budget")
            left_out.append(part.item)
            continue
        spent += tokens
        texts.add(text)
        fitting.append(part)
    return _Fitted(fitting, left_out, cut_by, repeated, spent)


async def _deliver_windows(
    ranked: Sequence[Scored], builder: _ResultBuilder, store: OrganizationStore
) -> Delivered:
    """Return whole windows, with handles for those that exceed the token budget."""
    chosen = choose_windows(ranked, last_sequences=builder.last_sequences())
    scored = {(item.conversation, item.sequence): item for item in ranked}
    results: list[SearchResult] = []
    texts = set[tuple[str, ...]]()
    tokens = repeated = 0
    for shown in chosen:
        if len(results) == builder.request.limit:
            break
        result = await _window_result(shown, scored, builder, store)
        cost, text = await offload(partial(_measure, result), characters=_characters(result))
        if text in texts:
            repeated += 1
            continue
        if tokens + cost > builder.request.token_budget:
            result = _without_text(result) if result.kind == "note" else builder.handle(shown)
        else:
            tokens += cost
            texts.add(text)
        results.append(result)
    cut_by: CutBy | None = "limit" if len(chosen) > len(results) + repeated else None
    if any(result.is_handle for result in results):
        cut_by = "token_budget"
    return Delivered(results=tuple(results), tokens=tokens, cut_by=cut_by, repeated=repeated)


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
        return await offload(partial(builder.memory, shown.item), characters=builder.characters)
    start, end = (sequence, sequence) if memory else (shown.window.start, shown.window.end)
    found = tuple(
        builder.found(message, scored.get((key, message.sequence)))
        for message in await store.load_range(key, start=start, end=end)
    )
    text = None if memory else window_text(each.message for each in found)
    return replace(builder.handle(shown), messages=found, chunk_text=text, is_handle=False)


class _ResultBuilder(Value, eq=False):
    """Builds results from what was read for one search."""

    loaded: Loaded
    request: SearchRequest
    chosen: Chosen

    @property
    def characters(self) -> int:
        """Return how much text is analysed."""
        read = (*self.loaded.memories.values(), *self.loaded.messages.values())
        return len(self.request.query) + sum(len(each.content) for each in read)

    def parts(self) -> Iterator[_Part]:
        """Yield what is delivered of the packed messages that still exist."""
        packed = self.chosen.packed
        items = merge(packed.items, packed.alike, key=lambda item: -item.order)
        contents = {item: self._content(item) for item in items}
        read = {item: content for item, content in contents.items() if content is not None}
        whole_max = self.chosen.whole_tokens_max
        long = {item for item, content in read.items() if is_longer(content, whole_max)}
        terms = frozenset(query_terms(self.request.query) if long else ())
        for item, content in read.items():
            if item in long:
                yield self._excerpt(item, content, terms)
            else:
                yield _Part(item, content, None)

    def text(self, parts: Sequence[_Part]) -> SearchResult:
        """Return the result of parts of one conversation, or of one memory."""
        items = [part.item for part in parts]
        key = items[0].conversation
        memory = self.loaded.memories.get(key)
        if memory is not None and not self.is_document(key):
            result = self.memory(items[0])
            return replace(result, chunk_text=parts[0].content, range=parts[0].range)
        owner = memory or self.loaded.conversations[key]
        sequences = [item.sequence for item in items]
        start, end = min(sequences), max(sequences)
        return SearchResult(
            kind="conversation" if memory is None else "document",
            score=max(item.score for item in items),
            chunk_id=chunk_id(owner.id, start=start, end=end),
            owner=owner,
            start_sequence=start,
            end_sequence=end,
            messages=tuple(map(self._found_part, parts)),
        )

    def memory(self, item: Scored) -> SearchResult:
        """Return the result of a memory with its text."""
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
            breakdown=self._breakdown(item),
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
            found_sequence=shown.item.sequence,
            is_handle=True,
        )

    def found(self, message: Message, item: Scored | None) -> FoundMessage:
        """Return a message with its score; 0 for a neighbour that is no candidate itself."""
        if item is None:
            return FoundMessage(message=message, score=0.0)
        return FoundMessage(message=message, score=item.score, breakdown=self._breakdown(item))

    def is_document(self, key: ConversationKey) -> bool:
        return key in self.loaded.memories and key in self.loaded.chunk_counts

    def _found_part(self, part: _Part) -> FoundMessage:
        message = self.loaded.messages[part.item.key]
        if part.range is not None:
            message = replace(message, content=part.content)
        return self.found(message, part.item)._replace(range=part.range)

    def _breakdown(self, item: Scored) -> ScoreBreakdown | None:
        return self.chosen.scoring.explain(item) if self.request.explain else None

    def _content(self, item: Scored) -> str | None:
        """Return the stored text of a message or memory; None if it has been deleted meanwhile."""
        key = item.conversation
        memory = self.loaded.memories.get(key)
        if memory is not None and not self.is_document(key):
            return memory.content
        message = self.loaded.messages.get(item.key)
        is_owned = memory is not None or key in self.loaded.conversations
        return message.content if message is not None and is_owned else None

    def _excerpt(self, item: Scored, content: str, terms: Collection[str]) -> _Part:
        tokens_max = self.chosen.lengths.excerpt
        found = find_excerpt(content, terms, near=self._near(item.key), tokens_max=tokens_max)
        shown = TextRange(start=found.start, end=found.end, of=len(content))
        return _Part(item, content[found.start : found.end], shown)

    def _near(self, key: MessageKey) -> list[NearPassage]:
        """Return the passages of a message on the scale of the model that made their vectors."""
        scales = {tier: each.message for tier, each in self.chosen.calibrations.items()}
        return [
            NearPassage(
                each.start,
                each.end,
                (each.cosine - scales[each.tier].offset) / scales[each.tier].span,
            )
            for each in self.loaded.passages.get(key, ())
        ]

    def last_sequences(self) -> dict[ConversationKey, int]:
        """Return the messages of each conversation, the chunks of each document, 1 for a memory."""
        lengths = {key: each.message_count for key, each in self.loaded.conversations.items()}
        counts = self.loaded.chunk_counts
        return lengths | {key: max(1, counts.get(key, 1)) for key in self.loaded.memories}


def _without_text(memory: SearchResult) -> SearchResult:
    return replace(memory, chunk_text=None, breakdown=None, is_handle=True)


def _measure(result: SearchResult) -> tuple[int, tuple[str, ...]]:
    """Return the cost of a result, and what it is compared by.

    A window's text repeats its messages, and both are counted.
    """
    texts = _texts(result)
    return sum(map(count_tokens, texts)), tuple(map(fold_spaces, texts))


def _characters(result: SearchResult) -> int:
    return sum(map(len, _texts(result)))


def _texts(result: SearchResult) -> list[str]:
    return [*(found.message.content for found in result.messages), result.chunk_text or ""]
