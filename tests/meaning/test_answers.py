"""What a model is sent for a question: the lines that answer it, of long texts the part, or silence."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from engram.api.search import SearchAnswered, search, search_text
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.search import SearchRequest
from engram.service import Service
from engram.text.tokens import count_tokens
from tests.meaning.local_service import open_local_service
from tests.promises import promise

SMALL_TALK = (
    "Good morning! Did you sleep well?",
    "The coffee machine on the second floor is broken again.",
    "Let us have lunch at noon, the canteen has soup today.",
    "My train was late because of the snow.",
    "Could you water the plants while I am away?",
    "The match on Saturday was a disappointment.",
    "I am reading a novel about the sea.",
    "ok, thanks",
)


@asynccontextmanager
async def remembered(
    directory: Path, *contents: str, is_indexed: bool = True
) -> AsyncGenerator[tuple[Service, Principal]]:
    """Yield a service whose only conversation has these messages after some small talk."""
    drafts = [MessageDraft(role="user", content=text) for text in (*SMALL_TALK, *contents)]
    async with open_local_service(directory) as local:
        append = AppendRequest(messages=tuple(drafts))
        await local.service.conversations.append_messages(local.me, append)
        if is_indexed:
            await local.index()
        yield local.service, local.me


async def ask(
    service: Service, me: Principal, query: str, *, min_score: float | None = None
) -> SearchAnswered:
    return await search(service, me, SearchRequest(query=query, min_score=min_score))


def lines_of(answer: SearchAnswered) -> list[str]:
    return [message.content for result in answer.results for message in result.messages]


FACT = "Maria Okafor signed the Zanzibar contract on the third of March."


@promise("bounded")
async def test_a_fact_comes_without_the_small_talk_around_it(tmp_path: Path) -> None:
    async with remembered(tmp_path, FACT) as (service, me):
        answer = await ask(service, me, "who signed the Zanzibar contract?")

    assert lines_of(answer) == [FACT]
    assert answer.weaker > 0


async def test_everything_comes_if_it_is_asked_for_best_first(tmp_path: Path) -> None:
    async with remembered(tmp_path, FACT) as (service, me):
        answer = await ask(service, me, "who signed the Zanzibar contract?", min_score=0.0)

    scores = [message.score for result in answer.results for message in result.messages]
    assert lines_of(answer)[0] == FACT
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)


@promise("bounded")
async def test_a_question_about_something_else_is_answered_by_a_line(tmp_path: Path) -> None:
    async with remembered(tmp_path, FACT) as (service, me):
        answer = await ask(service, me, "which vaccine did the veterinarian recommend?")

    assert lines_of(answer) == []
    text = search_text(answer, 1500)
    assert text.splitlines()[-1].startswith("nothing relevant; nearest: a")
    assert count_tokens(text) < 60


LONG = " ".join(f"Point {n} of the minutes concerns the budget of office {n}." for n in range(145))
SENTENCE = "The harbour master keeps the spare key of the boathouse under the blue buoy."


@pytest.mark.parametrize("place", [0, 3_000, len(LONG)])
async def test_of_a_long_message_the_sentence_comes_that_answers(
    tmp_path: Path, place: int
) -> None:
    start = LONG.rfind(" ", 0, place) + 1 if place < len(LONG) else len(LONG)
    content = f"{LONG[:start]} {SENTENCE} {LONG[start:]}".strip()
    async with remembered(tmp_path, content) as (service, me):
        answer = await ask(service, me, "where is the key to the boathouse?")

    assert len(content) > 8_100
    found = answer.results[0].messages[0]
    assert found.range is not None
    assert found.content == content[found.range.start : found.range.end]
    assert SENTENCE in found.content
    assert len(found.content) < 1_500


@pytest.mark.parametrize("is_indexed", [False, True])
async def test_a_made_up_name_is_found_in_code_of_any_length(
    tmp_path: Path, *, is_indexed: bool
) -> None:
    code = "\n".join(f"def step_{n}(value):\n    return value * {n} + offset" for n in range(80))
    place = code.index("def step_40")
    content = f"{code[:place]}def grumbolt_vex(order):\n    return order.total\n{code[place:]}"
    async with remembered(tmp_path, content, is_indexed=is_indexed) as (service, me):
        answer = await ask(service, me, "where do we call grumbolt_vex?")

    assert len(content) > 3_000
    assert answer.note is None
    assert "def grumbolt_vex(order):" in "".join(lines_of(answer))
