"""Language models over two wire formats, and how their failures are handled."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import pytest

from engram.embedding.retry import Backoff
from engram.errors import LanguageModelError
from engram.language import (
    AnthropicModel,
    LanguageModel,
    NoLanguageModel,
    OpenAIModel,
    Prompt,
    parse_language_choice,
)
from engram.language.remote import (
    AnthropicWire,
    OpenAIWire,
    RemoteLanguageModel,
    build_language_model,
)
from engram.limits import LANGUAGE_ATTEMPTS_MAX
from tests.fakes import FakeClock
from tests.language.service import Reply, Service, failing, running_language_service, saying

KEY = "sk-very-secret"
PROMPT = Prompt(system="Sum up.", text="Ignore all that.", tokens_max=80)


@pytest.fixture
def service() -> Iterator[Service]:
    """A running service."""
    with running_language_service() as service:
        yield service


@asynccontextmanager
async def asking(
    service: Service, wire: str = "openai", *, waits: list[float] | None = None, limit_s: float = 5
) -> AsyncGenerator[LanguageModel]:
    """Yield a model behind the service; the waits between its attempts are recorded."""
    recorded = [] if waits is None else waits

    async def note(seconds: float) -> None:
        recorded.append(seconds)

    model = RemoteLanguageModel(
        OpenAIWire(OpenAIModel("small", service.url))
        if wire == "openai"
        else AnthropicWire(AnthropicModel("small", service.url)),
        key=KEY,
        clock=FakeClock(),
        backoff=Backoff(sleep=note),
        limit_s=limit_s,
    )
    try:
        yield model
    finally:
        await model.close()


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_model_answers_over_both_wire_formats(service: Service, wire: str) -> None:
    service.usual = saying("  The gist.\n")

    async with asking(service, wire) as model:
        assert await model.complete(PROMPT) == "The gist."


async def test_requests_to_anthropic_follow_its_documentation(service: Service) -> None:
    async with asking(service, "anthropic") as model:
        await model.complete(PROMPT)

    (asked,) = service.asked
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert asked.body == {
        "model": "small",
        "max_tokens": 80,
        "system": "Sum up.",
        "messages": [{"role": "user", "content": "Ignore all that."}],
    }


async def test_requests_to_openai_follow_its_documentation(service: Service) -> None:
    async with asking(service) as model:
        await model.complete(PROMPT)

    (asked,) = service.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert [message["role"] for message in asked.body["messages"]] == ["system", "user"]


async def test_a_transient_failure_is_retried_after_the_requested_wait(service: Service) -> None:
    waits: list[float] = []
    service.behaviours = [failing(429, retry_after="7"), failing(503)]

    async with asking(service, waits=waits) as model:
        assert await model.complete(PROMPT) == "The gist."

    assert waits[0] == 7
    assert len(service.asked) == 3


async def test_attempts_are_bounded(service: Service) -> None:
    service.usual = failing(500)

    async with asking(service) as model:
        with pytest.raises(LanguageModelError):
            await model.complete(PROMPT)
    assert len(service.asked) == LANGUAGE_ATTEMPTS_MAX


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_not_retried(service: Service, status: int) -> None:
    service.usual = failing(status)

    async with asking(service) as model:
        with pytest.raises(LanguageModelError, match=str(status)):
            await model.complete(PROMPT)
    assert len(service.asked) == 1


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        b'{"content": [], "choices": []}',
        b'{"content": [1], "choices": [1]}',
        b'{"content": [{"type": "text", "text": " "}], "choices": [{"message": {"content": " "}}]}',
        b'{"content": 1, "choices": [{"message": {"content": null}}]}',
    ],
)
async def test_an_answer_without_text_is_an_error(service: Service, wire: str, body: bytes) -> None:
    service.usual = lambda _: Reply(body=body)

    async with asking(service, wire) as model:
        with pytest.raises(LanguageModelError):
            await model.complete(PROMPT)


async def test_a_hanging_service_times_out(service: Service) -> None:
    service.awake.clear()

    async with asking(service, limit_s=0.05) as model:
        with pytest.raises(LanguageModelError, match=r"within 0\.05 s"):
            await model.complete(PROMPT)
    service.awake.set()


async def test_an_endless_response_is_aborted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.limits.LANGUAGE_RESPONSE_BYTES_MAX", 1_000)
    service.usual = lambda _: Reply(body=b" " * 2_000)

    async with asking(service) as model:
        with pytest.raises(LanguageModelError, match="too large"):
            await model.complete(PROMPT)


async def test_neither_keys_nor_texts_appear_in_logs_or_errors(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="engram")
    service.usual = failing(401, body=f'{{"error": "{KEY} {PROMPT.text}"}}'.encode())

    async with asking(service) as model:
        with pytest.raises(LanguageModelError) as caught:
            await model.complete(PROMPT)

    assert KEY not in caplog.text + str(caught.value)
    assert PROMPT.text not in caplog.text + str(caught.value)


async def test_an_unreachable_service_is_an_error() -> None:
    absent = Service(url="http://127.0.0.1:9")

    async with asking(absent) as model:
        with pytest.raises(LanguageModelError, match="cannot be reached"):
            await model.complete(PROMPT)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("none", NoLanguageModel()),
        ("anthropic:claude-x", AnthropicModel("claude-x")),
        ("anthropic:http://127.0.0.1:1#m", AnthropicModel("m", "http://127.0.0.1:1")),
        ("openai:http://127.0.0.1:11434/v1#qwen:3b", OpenAIModel("qwen:3b", "http://127.0.0.1:11434/v1")),
    ],
)  # fmt: skip
def test_a_choice_is_written_as_it_is_read(text: str, choice: object) -> None:
    assert parse_language_choice(text) == choice
    assert str(parse_language_choice(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "claude", "none:", "anthropic:", "anthropic:ftp://x#m", "openai:m", "openai:http://x#"],
)
def test_the_error_for_an_unknown_choice_does_not_repeat_it(text: str) -> None:
    with pytest.raises(ValueError, match="anthropic:<model>"):
        parse_language_choice(text)


def test_no_model_is_built_if_none_is_chosen() -> None:
    assert build_language_model(NoLanguageModel(), key=None, clock=FakeClock()) is None


def test_a_base_path_is_completed_and_a_full_url_is_used_as_it_is() -> None:
    assert (
        OpenAIWire(OpenAIModel("m", "http://h/api/v1/")).endpoint
        == "http://h/api/v1/chat/completions"
    )
    assert AnthropicWire(AnthropicModel("m")).endpoint == "https://api.anthropic.com/v1/messages"
    assert AnthropicWire(AnthropicModel("m", "http://h/v1/messages")).endpoint == "http://h/v1/messages"  # fmt: skip
