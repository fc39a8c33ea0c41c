"""Counts and times every request, for Prometheus.

Each process counts for itself. With several workers a scrape is answered by one of them; the label
`pid` of `engram_process_info` says by which.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import perf_counter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram.service.activity import Activity

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
UNMATCHED = "unmatched"
"""The route of a request that none takes: paths are the caller's, labels must not be."""

ABANDONED = 499
"""The status counted for a request whose client left before it was answered."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The figures of one application."""

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
    """Reads what the service counted, whichever transport asked."""

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
