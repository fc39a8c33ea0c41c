"""What watches over a server asks: is it up, can it serve, what has it done."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from engram.errors import EngramError, UnavailableError
from engram.service import Service
from engram.transport.answers import to_json


def health_routes(render_metrics: Callable[[], bytes]) -> list[BaseRoute]:
    """Return `/healthz`, `/readyz` and `/metrics`."""

    async def metrics(_: Request) -> Response:
        return Response(render_metrics(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


async def healthz(_: Request) -> Response:
    """Say that the process answers."""
    return _json({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Really read the store, and say how long that took and what is missing.

    Raises:
        UnavailableError: it cannot be read.
    """
    service: Service = request.scope["state"]["service"]
    started = perf_counter()
    try:
        await service.operator.ping()
    except EngramError as exc:
        raise UnavailableError(f"the store cannot be read: {exc.message}") from exc
    latency_ms = round((perf_counter() - started) * 1000, 3)
    degraded = list(service.operator.degraded)
    return _json({"status": "ready", "latency_ms": latency_ms, "degraded": degraded})


def _json(answer: object) -> Response:
    return Response(to_json(answer), media_type="application/json")
