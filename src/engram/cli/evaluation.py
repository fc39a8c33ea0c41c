"""Run evaluation sets through the service, and compare their figures with a baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from engram.api.encoding import answer_text
from engram.api.search import SearchAnswered, search, search_text
from engram.cli.output import (
    Advance,
    explain_degraded,
    print_line,
    progress,
    show_table,
    styled,
    visible_line,
)
from engram.errors import UnavailableError
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import AppendRequest
from engram.model.search import SearchRequest
from engram.model.value import replace
from engram.service import Service
from engram_eval.dataset import (
    EvaluationConversation,
    EvaluationSet,
    Haystack,
    Question,
    batches_of,
    stages_of,
)
from engram_eval.report import (
    REGRESSION_COST_MAX,
    REGRESSION_POINTS_MAX,
    Baseline,
    Change,
    Curves,
    Foreign,
    GroupReport,
    Measurement,
    SetReport,
    compare,
    report_on,
)
from engram_eval.scoring import (
    CURVE_TOKENS,
    SILENT_TOKENS,
    Places,
    SentText,
    StoredTexts,
    evidence_curve,
    score_answer,
    score_sent,
    tokens_of,
)

POLL_S = 0.02
"""Interval of polling for pending messages; small beside the indexing time it measures."""

STALL_S = 120.0
"""Indexing without progress for this long has failed: far longer than any batch of a model."""


@dataclass(slots=True)
class _Tally:
    measured: list[Measurement] = field(default_factory=list[Measurement])
    foreign: list[Foreign] = field(default_factory=list[Foreign])
    messages: int = 0
    seconds: float = 0.0


async def measure_sets(
    service: Service,
    sets: Iterable[EvaluationSet],
    *,
    request: SearchRequest,
    on_report: Callable[[SetReport], None],
) -> None:
    """Measure every question of the sets, and report each set when it is done.

    A question is searched for twice: with the options of `request` for the ranking, and with the
    defaults of the tool for what a model is sent.
    """
    async with service.background_work():
        for dataset in sets:
            steps = dataset.message_count + dataset.question_count + dataset.foreign_count
            with progress(dataset.name, total=steps) as advance:
                report = await _measure_set(service, dataset, request, advance)
            on_report(report)


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
    return report_on(
        dataset.name,
        tally.measured,
        foreign=tally.foreign,
        messages=tally.messages,
        seconds=tally.seconds,
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """Measurement of one haystack, in an organisation of its own."""

    service: Service
    me: Principal
    request: SearchRequest
    advance: Advance

    async def measure(self, haystack: Haystack, tally: _Tally) -> None:
        places, stored = Places(), StoredTexts()
        for stage in stages_of(haystack):
            started = perf_counter()
            await self._store(stage.conversations, places)
            await self._until_indexed()
            tally.seconds += perf_counter() - started
            for conversation in stage.conversations:
                stored.record(conversation)
            for question in stage.questions:
                tally.measured.append(await self._ask(question, places, stored))
                self.advance(1)
        for question in haystack.foreign:
            tally.foreign.append(await self._ask_foreign(question))
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
                    f"indexing stalled: {left:,} messages pending, no progress in {STALL_S:.0f} s"
                )

    async def _pending(self) -> int:
        return (await self.service.account.status(self.me)).counters.pending

    async def _ask(self, question: Question, places: Places, stored: StoredTexts) -> Measurement:
        request = replace(self.request, query=question.text, asked_at=question.asked_at)
        started = perf_counter()
        answer = await self.service.search.search(self.me, request)
        latency_ms = (perf_counter() - started) * 1000
        hits = places.hits(answer.results)
        answered, sent = await self._send(question)
        return Measurement(
            category=question.category,
            figures={
                **score_answer(question, hits),
                **score_sent(question, sent, stored),
                "emptied": float(_is_emptied(answered)),
            },
            tokens=tokens_of(hits),
            latency_ms=latency_ms,
            degraded=answer.degraded,
            sent_tokens=sent.tokens,
            overhead=stored.overhead_of(sent),
            curves=_curves(question, sent, SentText(answer_text(answered)), stored),
            labels=question.labels,
        )

    async def _ask_foreign(self, question: Question) -> Foreign:
        _, sent = await self._send(question)
        return Foreign(tokens=sent.tokens, is_silent=sent.tokens < SILENT_TOKENS)

    async def _send(self, question: Question) -> tuple[SearchAnswered, SentText]:
        """Search with the defaults of the tool; return the answer, and the text a model is sent."""
        request = SearchRequest(query=question.text, asked_at=question.asked_at)
        answer = await search(self.service, self.me, request)
        return answer, SentText(search_text(answer, request.token_budget))


def _is_emptied(answer: SearchAnswered) -> bool:
    """Return True if an answer has no text of any result."""
    return not any(result.messages or result.chunk_text for result in answer.results)


def _curves(question: Question, sent: SentText, dump: SentText, stored: StoredTexts) -> Curves:
    """Return the evidence against tokens in what was sent, and in the same results dumped as JSON."""
    return {
        name: tuple(shares.values())
        for name, text in (("answer", sent), ("dump", dump))
        if (shares := evidence_curve(question, text, stored, at=CURVE_TOKENS))
    }


HEADERS = ("FIGURE", "NOW", "BASELINE", "CHANGE")
WIDTH = 9
"""Width of a column of numbers, right-aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A set's report, compared with its baseline."""

    report: SetReport
    is_compared: bool
    changes: tuple[Change, ...] | None
    """None if the set has no baseline."""

    @classmethod
    def of(cls, report: SetReport, baseline: Baseline | None) -> Comparison:
        """Compare a report with its set's figures in `baseline`, if there is one."""
        before = None if baseline is None else baseline.get(report.name)
        changes = None if before is None else compare(report.figures, before)
        return cls(report=report, is_compared=baseline is not None, changes=changes)

    @property
    def regressions(self) -> tuple[str, ...]:
        """Names of the figures that became worse by more than is allowed."""
        return tuple(change.figure for change in self.changes or () if change.is_regression)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the JSON answer."""
        report, speed = self.report, self.report.messages_per_s
        return {
            "set": report.name,
            "questions": report.questions,
            "messages": report.messages,
            "messages_per_s": None if speed is None else round(speed, 1),
            "quality": report.quality,
            "costs": report.costs,
            "curves": {"at": CURVE_TOKENS, **report.curves},
            "tokens": round(report.tokens, 1),
            "search_p50_ms": round(report.latency_p50_ms, 2),
            "search_p95_ms": round(report.latency_p95_ms, 2),
            "degraded": report.degraded,
            "categories": _groups_as_json(report.categories),
            "labels": {name: _groups_as_json(groups) for name, groups in report.labels.items()},
            "baseline": {change.figure: change.before for change in self.changes}
            if self.changes is not None
            else None,
            "regressions": self.regressions,
        }


def _groups_as_json(groups: Mapping[str, GroupReport]) -> dict[str, Any]:
    return {
        name: {"questions": group.questions, "quality": group.quality}
        for name, group in groups.items()
    }


def print_comparison(comparison: Comparison) -> None:
    """Print a set's figures, next to its baseline if it has one."""
    name = visible_line(comparison.report.name)
    print_line(styled(name, bold=True))
    rows = [HEADERS, *_speed_rows(comparison.report), *_figure_rows(comparison)]
    columns = 2 if comparison.changes is None else len(HEADERS)
    headers, *rest = ((row[0], *(cell.rjust(WIDTH) for cell in row[1:columns])) for row in rows)
    show_table(headers, rest)
    for label, groups in comparison.report.labels.items():
        _print_groups(label, groups)
    for degraded in comparison.report.degraded:
        print_line(explain_degraded(degraded))
    if comparison.is_compared and comparison.changes is None:
        print_line(f"{name} is not in the baseline; add it with --update")
    if comparison.regressions:
        fallen = ", ".join(comparison.regressions)
        allowed = f"{REGRESSION_POINTS_MAX:g} point, or {REGRESSION_COST_MAX:.0%} of a cost"
        worse = f"worse than the baseline by more than {allowed}: {visible_line(fallen)}"
        print_line(styled(worse, fg="red"))
    print_line()


def _print_groups(label: str, groups: Mapping[str, GroupReport]) -> None:
    """Print the share of texts that were delivered verbatim, by a property of the questions."""
    rows = [
        (visible_line(name), f"{group.questions:,}".rjust(WIDTH), f"{share:.2f}".rjust(WIDTH))
        for name, group in groups.items()
        if (share := group.quality.get("delivered")) is not None
    ]
    if rows:
        headers = ("QUESTIONS".rjust(WIDTH), "DELIVERED".rjust(WIDTH))
        show_table((f"BY {visible_line(label).upper()}", *headers), rows)


Cells = tuple[str, str, str, str]


def _speed_rows(report: SetReport) -> Iterator[Cells]:
    speed = report.messages_per_s
    yield "questions", f"{report.questions:,}", "", ""
    yield "messages", f"{report.messages:,}", "", ""
    yield "messages/s", "-" if speed is None else f"{speed:,.1f}", "", ""
    yield "tokens ranked", f"{report.tokens:,.0f}", "", ""
    yield "p50 ms", f"{report.latency_p50_ms:,.2f}", "", ""
    yield "p95 ms", f"{report.latency_p95_ms:,.2f}", "", ""


def _figure_rows(comparison: Comparison) -> Iterator[Cells]:
    figures = comparison.report.figures
    changes = {change.figure: change for change in comparison.changes or ()}
    for figure in sorted(figures.keys() | changes.keys(), key=_order):
        change, now = changes.get(figure), figures.get(figure)
        yield (
            figure,
            "-" if now is None else f"{now:.2f}",
            "" if change is None else f"{change.before:.2f}",
            "" if change is None or change.points is None else f"{change.points:+.2f}",
        )


def _order(figure: str) -> tuple[str, int]:
    """Sort key: the figure's kind, then its depth as a number."""
    kind, _, depth = figure.partition("@")
    return kind, int(depth) if depth.isdigit() else 0
