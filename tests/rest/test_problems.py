"""Every error has its status, and an unexpected one tells the client nothing."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engram import errors
from engram.errors import EngramError
from engram.http.headers import AnswerHeaders
from engram.http.problems import Failures, problem_of
from engram.service.access.admission import Turns
from tests.promises import promise
from tests.rest.calls import refusal

EXAMPLES: list[tuple[EngramError, int]] = [
    (errors.InvalidRequestError(field="f"), 400),
    (errors.LimitExceededError("f", limit=1, actual=2, unit="bytes"), 400),
    (errors.RequestTooLargeError("f", limit=1, actual=2, unit="bytes"), 413),
    (errors.NotTextError(offset_bytes=7), 400),
    (errors.ConversionError(), 400),
    (errors.UnauthenticatedError(), 401),
    (errors.AccessDeniedError("read"), 403),
    (errors.ToolsetDeniedError("notes"), 403),
    (errors.CrossSiteError(), 403),
    (errors.QuotaExceededError(resource="messages", limit=1, used=1, needed=1), 403),
    (errors.NotFoundError("conversation", "conv_x"), 404),
    (errors.ConflictError(), 409),
    (errors.IdempotencyConflictError(), 409),
    (errors.HeldError("conv_x", hold="hold_x", reason="case 12"), 409),
    (errors.RateLimitedError(retry_after_s=0.1, limit=2), 429),
    (errors.TooManyFailedLoginsError(retry_after_s=0.1, limit=2), 429),
    (errors.TooManyAtOnceError(waiting=3), 429),
    (errors.TooManySessionsError(owner="key", limit=3), 429),
    (errors.UnavailableError(), 503),
    (errors.ServerBusyError(), 503),
    (errors.EmbedderUnavailableError(), 503),
    (errors.ConverterMissingError(), 503),
    (errors.LanguageModelError(), 503),
    (errors.StoreBusyError(), 503),
    (errors.StoreUnavailableError(), 503),
    (errors.OpenFilesError(), 503),
    (errors.StoreFullError(), 507),
    (errors.StorageError(), 500),
    (errors.StoreReadOnlyError(), 500),
    (errors.StoreCorruptError(), 500),
    (errors.StoreReplacedError(), 500),
    (errors.StoreMovedError("postgresql://db/engram"), 409),
    (errors.StoreNewerError(), 500),
    (errors.BackupUnavailableError(), 500),
    (errors.BackupDamagedError(), 500),
    (errors.EmbedderMismatchError(), 500),
    (errors.InvalidVectorError(), 500),
    (errors.ConfigurationError("ENGRAM_PORT", "x"), 500),
    (errors.EngramError(), 500),
]


def every_error(kind: type[EngramError] = EngramError) -> Iterator[type[EngramError]]:
    yield kind
    for child in kind.__subclasses__():
        yield from every_error(child)


def test_every_error_has_an_example_here() -> None:
    assert {type(error) for error, _ in EXAMPLES} >= set(every_error())


@promise("clear")
@pytest.mark.parametrize(("error", "status"), EXAMPLES)
def test_an_error_has_its_status_and_keeps_its_code(error: EngramError, status: int) -> None:
    problem = problem_of(error)

    assert (problem.status, problem.code) == (status, error.code)
    assert ("Retry-After" in problem.headers) == (status in {429, 503})


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in every_error()]

    assert len(codes) == len(set(codes))


def connected(app: ASGIApp) -> httpx.AsyncClient:
    guarded = AnswerHeaders(Failures(app, Turns()))
    transport = httpx.ASGITransport(guarded, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    message = "the password is hunter2"
    raise ValueError(message)


@promise("clear")
async def test_an_unexpected_error_is_logged_and_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        async with connected(broken) as client:
            answer = await client.get("/somewhere?q=private")

    assert refusal(answer) == (500, "internal_error", None)
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text
    assert "private" not in caplog.text


async def broken_midway(scope: Scope, receive: Receive, send: Send) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"half"
        raise errors.StoreCorruptError

    await StreamingResponse(pieces())(scope, receive, send)


async def test_an_answer_that_has_begun_is_cut_off_and_not_finished_as_if_it_were_whole() -> None:
    guarded = AnswerHeaders(Failures(broken_midway, Turns()))
    transport = httpx.ASGITransport(guarded)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        with pytest.raises(errors.StoreCorruptError):
            await client.get("/")
