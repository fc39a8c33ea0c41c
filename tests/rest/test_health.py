"""Health, readiness, metrics and what every answer carries."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from dirty_equals import IsFloat
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Receive, Scope, Send

from engram import limits
from engram.http.asgi import Application
from engram.settings import Settings
from tests.rest.calls import ADMIN_TOKEN, URL, append, connect, new_conversation, refusal


async def figures(client: httpx.AsyncClient) -> dict[tuple[str, ...], float]:
    """Return every sample of /metrics by its name and sorted label values."""
    text = (await client.get("/metrics")).text
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_live_process_says_so(anybody: httpx.AsyncClient) -> None:
    answer = await anybody.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_readiness_tells_the_latency_of_the_store_and_what_is_missing(
    anybody: httpx.AsyncClient,
) -> None:
    answer = await anybody.get("/readyz")

    assert answer.json() == {
        "status": "ready",
        "latency_ms": IsFloat(ge=0),
        "degraded": ["words_only"],
        "homes_away": [],
    }


def damage(home: Path) -> None:
    for path in home.glob("engram.db*"):
        path.write_bytes(b"\x00" * path.stat().st_size)


async def test_a_server_whose_store_is_damaged_is_not_ready(
    anybody: httpx.AsyncClient, settings: Settings
) -> None:
    damage(settings.home)

    answer = await anybody.get("/readyz")

    assert refusal(answer) == (503, "unavailable", None)
    assert (await anybody.get("/healthz")).status_code == 200


async def test_a_server_whose_store_was_removed_is_not_ready_and_acknowledges_nothing(
    anybody: httpx.AsyncClient, api: httpx.AsyncClient, settings: Settings
) -> None:
    conversation_id = await new_conversation(api)
    shutil.rmtree(settings.home)

    refused = await append(api, conversation_id, "into a deleted file")
    ready = await anybody.get("/readyz")

    assert refusal(refused) == (500, "store_replaced", None)
    assert refusal(ready) == (503, "unavailable", None)
    assert not settings.home.exists()


async def test_requests_are_counted_by_template_and_not_by_address(
    anybody: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    await api.get("/api/v1/conversations/conv_a")
    await api.get("/api/v1/conversations/conv_b")
    await api.get("/nowhere/1")

    seen = await figures(anybody)

    template = "route=/api/v1/conversations/{conversation_id}"
    assert seen["engram_requests_total", "method=GET", template, "status=404"] == 2
    assert seen["engram_request_seconds_count", "method=GET", template] == 2
    assert seen["engram_requests_total", "method=GET", "route=unmatched", "status=404"] == 1
    assert seen["engram_requests_in_progress",] == 1


async def test_messages_and_searches_are_counted(
    anybody: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    await append(api, await new_conversation(api), "a", "b")
    await api.post("/api/v1/search", json={"query": "a"})

    seen = await figures(anybody)

    assert seen["engram_messages_appended_total",] == 2
    assert seen["engram_searches_total",] == 1


async def test_metrics_are_for_this_machine_or_the_operator(app: Application) -> None:
    async with connect(app, peer="203.0.113.9") as remote:
        assert refusal(await remote.get("/metrics")) == (401, "unauthenticated", None)
    async with connect(app, ADMIN_TOKEN, peer="203.0.113.9") as remote:
        assert (await remote.get("/metrics")).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "CF-Connecting-IP", "CF-Ray", "Client-IP", "Fastly-Client-IP", "Forwarded", "Front-End-Https",
        "True-Client-IP", "Via", "X-Amzn-Trace-Id", "X-Client-IP", "X-Cluster-Client-IP",
        "X-Envoy-External-Address", "X-Forwarded", "X-Forwarded-By", "X-Forwarded-For",
        "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server",
        "X-Original-Forwarded-For", "X-Original-Host", "X-ProxyUser-Ip", "X-Real-IP", "X-Request-Id",
        "X-Something-That-A-Proxy-Of-Tomorrow-Adds",
    ],
)  # fmt: skip
async def test_a_proxy_on_this_machine_does_not_open_the_metrics(
    anybody: httpx.AsyncClient, header: str
) -> None:
    answer = await anybody.get("/metrics", headers={header: "203.0.113.9"})

    assert refusal(answer) == (401, "unauthenticated", None)


async def test_a_proxy_that_speaks_an_older_http_does_not_open_the_metrics(
    app: Application,
) -> None:
    async def as_nginx(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "http_version": "1.0"}, receive, send)

    transport = httpx.ASGITransport(as_nginx)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as proxied:
        answer = await proxied.get("/metrics")

    assert refusal(answer) == (401, "unauthenticated", None)


async def test_a_scraper_on_this_machine_needs_no_token(anybody: httpx.AsyncClient) -> None:
    # The headers of Prometheus 3, and those of a tracing scraper.
    headers = {
        "User-Agent": "Prometheus/3.5.0",
        "Accept": "text/plain;version=0.0.4;q=0.1,*/*;q=0.1",
        "Accept-Encoding": "gzip",
        "X-Prometheus-Scrape-Timeout-Seconds": "10",
        "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }

    assert (await anybody.get("/metrics", headers=headers)).status_code == 200


async def test_every_answer_has_an_id_of_its_own(
    anybody: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    answers = [
        await anybody.get("/healthz"),
        await anybody.get("/nowhere"),
        await api.get("/api/v1/status"),
        await api.get("/api/v1/conversations/conv_x"),
    ]

    ids = {answer.headers["x-request-id"] for answer in answers}
    assert len(ids) == len(answers)


async def test_a_server_whose_store_was_removed_is_not_ready(
    anybody: httpx.AsyncClient, settings: Settings
) -> None:
    (settings.home / "engram.db").rename(settings.home / "elsewhere.db")

    answer = await anybody.get("/readyz")

    assert refusal(answer) == (503, "unavailable", None)
    assert "missing" in answer.json()["detail"]


async def test_a_store_that_does_not_answer_in_time_is_not_ready(
    anybody: httpx.AsyncClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "READY_S", 0.2)

    with closing(sqlite3.connect(settings.home / "engram.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        late = await anybody.get("/readyz")
        other.rollback()

    assert refusal(late) == (503, "unavailable", None)
    assert "within 0.2 s" in late.json()["detail"]
    monkeypatch.undo()
    assert (await anybody.get("/readyz")).status_code == 200


async def test_readiness_writes_seldom_however_often_it_is_asked(
    anybody: httpx.AsyncClient, settings: Settings
) -> None:
    await anybody.get("/readyz")
    with closing(sqlite3.connect(settings.home / "engram.db")) as other:
        seen = other.execute("PRAGMA data_version").fetchone()
        for _ in range(20):
            await anybody.get("/readyz")

        assert other.execute("PRAGMA data_version").fetchone() == seen
