"""Agents are told what they need, once, and nothing else."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.engine.hooks import Hooks
from engram.model.memory import NoteDraft
from engram.model.value import replace
from engram.search.remind import StoredText, fit_texts
from tests.hooks.sessions import Sessions

ASKED = "Which queue does the billing worker use?"
ANSWER = "The billing worker uses the outbox table as its queue, polled every 2 seconds."


@pytest.fixture
async def known(sessions: Sessions) -> Sessions:
    """Return sessions that come after one about a queue."""
    await sessions.capture("s1", "What queue shall the billing worker use?", ANSWER)
    await sessions.recall("start", "s2", source="startup")
    return sessions


async def test_a_new_session_is_told_what_its_project_was_about(known: Sessions) -> None:
    told = await known.recall("start", "s3", source="startup")

    assert ANSWER in told
    assert told.startswith("<memory_context>\n")
    assert len(told.encode()) <= limits.HOOK_START_BYTES_MAX


async def test_what_a_new_session_is_told_has_the_date_on_which_it_was_said(
    known: Sessions,
) -> None:
    known.clock.advance(timedelta(days=40))
    await known.capture("s4", "Which port does staging use?", "Staging uses port 6543.")

    told = await known.recall("start", "s3", source="startup")

    assert 'title="Which port does staging use?" date="2026-05-08"' in told


async def test_a_new_session_is_told_what_holds_in_all_projects(known: Sessions) -> None:
    me = await known.service.access.local_principal()
    for text, project in (("Ada prefers tabs.", "default"), ("Elsewhere they use spaces.", "x")):
        draft = NoteDraft(content=text, project=project)
        await known.service.memories.store_note(me, draft)

    told = await known.recall("start", "s3", source="startup")

    assert ANSWER in told
    assert "prefers tabs" in told
    assert "spaces" not in told


async def test_a_prompt_gets_what_answers_it_with_an_id_to_ask_further(known: Sessions) -> None:
    told = await known.recall("prompt", "s3", ASKED)

    assert ANSWER in told
    [reference] = re.findall(r'id="(conv_[^"]+)"', told)
    assert ANSWER in await known.read(reference)
    assert f"| #2 assistant: {ANSWER}" in told


@pytest.mark.parametrize(
    "prompt",
    [
        "Write a haiku about autumn rain",
        "go on",
        "/compact",
        "",
        "<private>queue of the billing worker</private>",
    ],
)
async def test_a_prompt_that_nothing_answers_gets_nothing(known: Sessions, prompt: str) -> None:
    assert await known.recall("prompt", "s2", prompt) == ""


async def test_the_same_is_not_told_twice_in_a_session(known: Sessions) -> None:
    first = await known.recall("start", "s3", source="startup")
    again = await known.recall("prompt", "s3", ASKED)
    resumed = await known.recall("start", "s3", source="resume")

    assert ANSWER in first
    assert ANSWER not in again + resumed


@pytest.mark.parametrize("event", ["compact", "start"])
async def test_after_a_compaction_it_comes_again(known: Sessions, event: str) -> None:
    assert ANSWER in await known.recall("prompt", "s3", ASKED)
    known.clock.advance(timedelta(seconds=limits.HOOK_TWICE_S))

    await known.recall(event, "s3", source="compact")

    told = await known.recall("prompt", "s3", ASKED)
    assert ANSWER in told or event == "start"


@pytest.mark.parametrize(("trigger", "is_told_again"), [("auto", False), ("manual", True)])
async def test_gemini_announces_compactions_with_every_prompt_that_are_none(
    known: Sessions, trigger: str, *, is_told_again: bool
) -> None:
    gemini = {"client": "gemini"}
    assert ANSWER in await known.recall("prompt", "s3", ASKED, **gemini)
    known.clock.advance(timedelta(seconds=limits.HOOK_TWICE_S))

    await known.recall("compact", "s3", trigger=trigger, **gemini)

    told = await known.recall("prompt", "s3", ASKED, **gemini)
    assert (ANSWER in told) is is_told_again


@pytest.mark.parametrize("source", ["startup", "clear", "compact"])
async def test_a_start_whose_hook_stands_in_two_files_is_told_once(
    known: Sessions, source: str
) -> None:
    told = [await known.recall("start", "s3", source=source) for _ in range(2)]

    assert ANSWER in told[0]
    assert told[1] == ""


async def test_after_a_while_it_comes_again(known: Sessions) -> None:
    assert ANSWER in await known.recall("prompt", "s3", ASKED)

    known.clock.advance(timedelta(seconds=limits.HOOK_SHOWN_S + 1))

    assert ANSWER in await known.recall("prompt", "s3", ASKED)


async def test_a_session_is_not_told_what_it_said_itself(known: Sessions) -> None:
    assert await known.recall("prompt", "s1", ASKED) == ""


async def test_a_session_whose_start_was_missed_is_told_with_its_first_prompt(
    known: Sessions,
) -> None:
    told = await known.recall("prompt", "s9", "Write a haiku about autumn rain")

    assert ANSWER in told
    assert await known.recall("prompt", "s9", "And one about spring, please") == ""


async def test_a_note_of_another_project_is_found_when_its_own_has_nothing(known: Sessions) -> None:
    me = await known.service.access.local_principal()
    draft = NoteDraft(content="Deployments are frozen on Fridays.", project="elsewhere")
    await known.service.memories.store_note(me, draft)

    assert "frozen on Fridays" in await known.recall("prompt", "s2", "When are deployments frozen?")


async def test_what_was_told_is_in_the_log(known: Sessions) -> None:
    await known.recall("prompt", "s3", ASKED)
    await known.hooks.finish()

    me = await known.service.access.local_principal()
    newest, start = await known.service.search.list_deliveries(me, limit=10)
    assert (newest.event, newest.session, newest.client) == ("prompt", "s3", "claude")
    assert newest.query is not None
    assert ASKED not in repr(newest)
    assert newest.tokens > 0
    assert newest.bytes <= limits.HOOK_START_BYTES_MAX
    assert all(each.startswith(("conv_", "mem_")) for each in newest.shown)
    assert (start.event, start.query) == ("start", None)


async def test_the_log_can_be_switched_off(known: Sessions) -> None:
    await known.hooks.finish()
    known.hooks = Hooks(known.service, replace(known.settings, hook_log="off"))
    me = await known.service.access.local_principal()
    before = await known.service.search.list_deliveries(me, limit=10)

    assert ANSWER in await known.recall("prompt", "s3", ASKED)
    await known.hooks.finish()

    assert await known.service.search.list_deliveries(me, limit=10) == before


@pytest.mark.parametrize("event", ["start", "prompt"])
async def test_what_a_hook_did_not_wait_for_is_told_at_the_next_prompt(
    known: Sessions, event: str
) -> None:
    given = {"event": event, "session": "s3", "client": "claude", "cwd": str(known.work)}
    late = await known.hooks.recall({**given, "prompt": ASKED, "source": "startup"})
    assert ANSWER in late.context

    await known.hooks.withdraw(late)

    assert ANSWER in await known.recall("prompt", "s3", "Write a haiku about autumn rain")


async def test_the_directory_of_hooks_is_the_users_alone(sessions: Sessions) -> None:
    directory = sessions.settings.home / "hooks"
    await sessions.recall("start", "s1", source="startup")
    assert directory.stat().st_mode & 0o077 == 0

    directory.chmod(0o755)
    sessions.end_turn("s1")

    assert directory.stat().st_mode & 0o077 == 0


@given(
    st.lists(st.text(max_size=400), max_size=8),
    st.sampled_from([600, limits.HOOK_PROMPT_BYTES_MAX, limits.HOOK_START_BYTES_MAX]),
)
def test_a_reminder_never_passes_its_bound(contents: list[str], bytes_max: int) -> None:
    texts = [
        StoredText(f"msg_{at}", f"conv_{at % 3}", {"id": f"conv_{at % 3}"}, content, "user", at)
        for at, content in enumerate(contents)
    ]

    reminder = fit_texts(texts, bytes_max=bytes_max, head=('<project name="x"/>',))

    assert len(reminder.context.encode("utf-8", "replace")) <= bytes_max
    assert bool(reminder.context) == bool(reminder.shown)
