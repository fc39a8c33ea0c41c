"""Health checks, and the Prometheus metrics of every request.

Each process counts for itself. With several workers the one that is scraped asks all others and adds up; the
labels `pid` of `engram_process_info` tell whose figures are in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from time import perf_counter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.api.encoding import to_json
from engram.bodies.siblings import HandedRequest, Siblings, is_handed_on
from engram.errors import EngramError, UnavailableError
from engram.service import Service
from engram.service.access.usage import Activity

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
UNMATCHED = "unmatched"
"""The route label of unmatched requests: a caller must not be able to create labels."""

OK = 200
ABANDONED = 499
"""The status counted for a request whose client left before it was answered."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one application."""

    def __init__(self, activity: Activity) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "engram_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._seconds = Histogram(
            "engram_request_seconds",
            "Time from a request to the end of its answer.",
            ["method", "route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self.in_progress = Gauge(
            "engram_requests_in_progress", "Requests being answered.", registry=self._registry
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        info = Gauge("engram_process_info", "This process.", ["pid"], registry=self._registry)
        info.labels(str(os.getpid())).set(1)
        self._registry.register(_ActivityCollector(activity))
        ProcessCollector(registry=self._registry)

    def record(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        labels = (method, route, status)
        series = self._series.get(labels)
        if series is None:
            # Looking a series up by its labels costs more than counting; the labels are few.
            counter = self._requests.labels(method, route, str(status))
            series = self._series[labels] = (counter, self._seconds.labels(method, route))
        series[0].inc()
        series[1].observe(seconds)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)


class Measured:
    """Records each request under its route's template."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = perf_counter(), ABANDONED

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        if is_handed_on(scope):
            # Counted where it came in.
            await self._app(scope, receive, send)
            return
        self._metrics.in_progress.inc()
        try:
            await self._app(scope, receive, send_on)
        finally:
            self._metrics.in_progress.dec()
            self._metrics.record(
                method=scope["method"] if scope["method"] in METHODS else "other",
                route=getattr(scope.get("route"), "path", UNMATCHED),
                status=status,
                seconds=perf_counter() - started,
            )


class _ActivityCollector(Collector):
    """Exports the counters of the service, which all transports share."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity

    def collect(self) -> Iterator[Metric]:
        activity = self._activity
        yield CounterMetricFamily(
            "engram_messages_appended", "Messages stored.", value=activity.messages_appended
        )
        yield CounterMetricFamily(
            "engram_memories_stored", "Memories stored.", value=activity.memories_stored
        )
        yield CounterMetricFamily("engram_searches", "Searches answered.", value=activity.searches)
        yield CounterMetricFamily(
            "engram_audit_lost", "Audit events not kept or sent on.", value=activity.audit_lost
        )
        yield CounterMetricFamily(
            "engram_scrubbed_bytes", "Bytes read to prove them.", value=activity.scrubbed_bytes
        )
        yield CounterMetricFamily(
            "engram_scrub_faults",
            "Damaged rows and contents found by reading.",
            value=activity.scrub_faults,
        )
        yield GaugeMetricFamily(
            "engram_scrub_finished_timestamp_seconds",
            "When an organisation was last read to its end; 0 is never.",
            value=activity.scrub_finished_s,
        )


def health_routes(metrics: Metrics, siblings: Siblings) -> list[BaseRoute]:
    """Return `/healthz`, `/readyz` and `/metrics`."""

    async def show_metrics(request: Request) -> Response:
        shown = [metrics.render()]
        if not is_handed_on(request.scope):
            asked = HandedRequest.of(request.scope, b"")
            answers = await asyncio.gather(
                *(siblings.ask(name, asked) for name in siblings.others())
            )
            shown += [each.body for each in answers if each is not None and each.status == OK]
        return Response(added_up(shown), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", show_metrics)]


def added_up(shown: Sequence[bytes]) -> bytes:
    """Return the metrics of several processes as those of one, in Prometheus' text format."""
    if len(shown) == 1:
        return shown[0]
    families = dict[str, Metric]()
    values = dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]]()
    for text in shown:
        for family in text_string_to_metric_families(text.decode()):
            families.setdefault(family.name, family)
            known = values.setdefault(family.name, {})
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                known[key] = _joined(sample.name, known.get(key), sample.value)
    for name, family in families.items():
        family.samples = [
            Sample(sample, dict(labels), value) for (sample, labels), value in values[name].items()
        ]
    registry = CollectorRegistry()
    registry.register(_Families(families.values()))
    return generate_latest(registry)


def _joined(name: str, known: float | None, value: float) -> float:
    """Return the value of several processes: the sum, or of times the first start and the last event."""
    if known is None:
        return value
    if name.endswith(("_created", "_start_time_seconds")):
        return min(known, value)
    if name.endswith("_timestamp_seconds"):
        return max(known, value)
    return known + value


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def healthz(_: Request) -> Response:
    """Answer that the process is up."""
    return _json({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Read the store and write to it, and report the latency, what is degraded and which homes are away.

    Raises:
        UnavailableError: it cannot be read or written, or does not answer in time.
    """
    service: Service = request.scope["state"]["service"]
    started = perf_counter()
    try:
        await service.operator.check_ready()
    except EngramError as exc:
        raise UnavailableError(f"the store cannot be used: {exc.message}") from exc
    latency_ms = round((perf_counter() - started) * 1000, 3)
    answer = {
        "status": "ready",
        "latency_ms": latency_ms,
        "degraded": list(service.operator.degraded),
        "homes_away": list(service.operator.homes_away),
    }
    return _json(answer)


def _json(answer: object) -> Response:
    return Response(to_json(answer), media_type="application/json")
