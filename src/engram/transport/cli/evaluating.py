"""An evaluation set through the service, as a client would use it: store, wait, ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from time import perf_counter

from engram.errors import UnavailableError
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest
from engram.model.search import SearchRequest
from engram.service import Service
from engram.transport.background import background_work
from engram.transport.cli.progress import Advance, progress
from engram_eval.dataset import (
    EvaluationConversation,
    EvaluationSet,
    Haystack,
    Question,
    batches_of,
    stages_of,
)
from engram_eval.report import Measurement, SetReport, report_on
from engram_eval.scoring import Places, score_answer, tokens_of

POLL_S = 0.02
"""How often the index is asked whether it is complete; a small part of the wait it measures."""

STALL_S = 120.0
"""An index that does not move for so long will not: far longer than any batch of a model."""


@dataclass(slots=True)
class _Tally:
    measured: list[Measurement] = field(default_factory=list[Measurement])
    messages: int = 0
    seconds: float = 0.0


async def measure_sets(
    service: Service,
    sets: Iterable[EvaluationSet],
    *,
    request: SearchRequest,
    tell: Callable[[SetReport], None],
) -> None:
    """Ask every question of the sets as `request` says, and tell each set's report when it is done."""
    async with background_work(service):
        for dataset in sets:
            steps = dataset.message_count + dataset.question_count
            with progress(dataset.name, total=steps) as advance:
                report = await _measure_set(service, dataset, request, advance)
            tell(report)


async def _measure_set(
    service: Service, dataset: EvaluationSet, request: SearchRequest, advance: Advance
) -> SetReport:
    tally = _Tally()
    for number, haystack in enumerate(dataset.haystacks, start=1):
        draft = OrganizationDraft(name=f"haystack {number}")
        organization, _ = await service.operator.create_organization(draft)
        run = _Run(service, await service.operator.act_for(organization.id), request, advance)
        await run.measure(haystack, tally)
        await service.operator.delete_organization(organization.id)
    return report_on(dataset.name, tally.measured, messages=tally.messages, seconds=tally.seconds)


@dataclass(frozen=True, slots=True)
class _Run:
    """One haystack's organisation."""

    service: Service
    me: Principal
    request: SearchRequest
    advance: Advance

    async def measure(self, haystack: Haystack, tally: _Tally) -> None:
        places = Places()
        for stage in stages_of(haystack):
            started = perf_counter()
            await self._store(stage.conversations, places)
            await self._until_indexed()
            tally.seconds += perf_counter() - started
            for question in stage.questions:
                tally.measured.append(await self._ask(question, places))
                self.advance(1)
        tally.messages += places.message_count

    async def _store(self, conversations: Iterable[EvaluationConversation], places: Places) -> None:
        store = self.service.conversations
        for conversation in conversations:
            stored_as = await store.create_conversation(self.me, conversation.draft)
            places.record(stored_as, conversation)
            for batch in batches_of(conversation.messages):
                drafts = tuple(message.draft for message in batch)
                append = AppendRequest(messages=drafts, conversation_id=stored_as)
                await store.append_messages(self.me, append)
                self.advance(len(batch))

    async def _until_indexed(self) -> None:
        left, moved_at = await self._pending(), perf_counter()
        while left:
            await asyncio.sleep(POLL_S)
            pending, now = await self._pending(), perf_counter()
            if pending != left:
                left, moved_at = pending, now
            elif now - moved_at > STALL_S:
                raise UnavailableError(
                    f"indexing stopped: {left:,} pending and none done in {STALL_S:.0f} s"
                )

    async def _pending(self) -> int:
        return (await self.service.account.status(self.me)).counters.pending

    async def _ask(self, question: Question, places: Places) -> Measurement:
        request = replace(self.request, query=question.text)
        started = perf_counter()
        answer = await self.service.recall.search(self.me, request)
        latency_ms = (perf_counter() - started) * 1000
        hits = places.hits(answer.results)
        return Measurement(
            category=question.category,
            figures=score_answer(question, hits),
            tokens=tokens_of(hits),
            latency_ms=latency_ms,
            degraded=answer.degraded,
        )
