"""What was said in a session is in the store once, without what must not be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.engine.hooks import Hooks
from engram.hooks.spool import Drain, append
from engram.model.access import OrganizationChange
from engram.model.conversation import ConversationQuery
from engram.model.value import replace
from engram.privacy.consent import OFF_FILE
from tests.hooks.payloads import said, write_transcript
from tests.hooks.sessions import Sessions

KEY = "ghp_" + "a1B2" * 9


async def test_a_turn_is_captured_from_the_transcript(sessions: Sessions) -> None:
    await sessions.capture("s1", "Where do ferries dock?", "At the north pier.")

    assert await sessions.stored() == ["Where do ferries dock?", "At the north pier."]


async def test_events_that_repeat_or_were_missed_make_no_difference(sessions: Sessions) -> None:
    sessions.say("s1", "first")
    sessions.say("s1", "second", start=1)
    for event in ("turn", "turn", "end"):
        sessions.end_turn("s1", event)
    await sessions.hooks.drain()
    sessions.say("s1", "third", start=2)
    sessions.end_turn("s1")
    await sessions.hooks.drain()

    assert await sessions.stored() == ["first", "second", "third"]


async def test_sub_agents_are_captured_with_their_session(sessions: Sessions) -> None:
    sessions.say("s1", "Ask somebody")
    path = sessions.transcript("s1").with_suffix("") / "subagents" / "agent-7.jsonl"
    line = said("s1", 9, "assistant", "I looked at the pier", directory=sessions.work)
    write_transcript(path, {**line, "isSidechain": True, "agentId": "7"})
    sessions.end_turn("s1")
    await sessions.hooks.drain()

    assert set(await sessions.stored()) == {"Ask somebody", "I looked at the pier"}


async def test_what_must_not_be_kept_is_not_in_the_store(sessions: Sessions) -> None:
    reminded = await sessions.recall("start", "s1")
    await sessions.capture(
        "s1",
        f"Use {KEY} <private>the vault is violet</private> please {reminded}",
        "<memory_context>\nold news\n</memory_context>\nDone.",
    )

    assert await sessions.stored() == ["Use [redacted:github-token] [private] please ", "Done."]


async def test_secrets_stay_if_the_setting_says_so(sessions: Sessions) -> None:
    settings = replace(sessions.settings, redact="off")
    sessions.hooks = Hooks(sessions.service, settings)

    await sessions.capture("s1", f"Use {KEY}")

    assert await sessions.stored() == [f"Use {KEY}"]


async def test_a_repository_that_switches_memory_off_is_neither_captured_nor_reminded(
    sessions: Sessions,
) -> None:
    await sessions.capture("s1", "Where do ferries dock?", "At the north pier.")
    (sessions.work).mkdir()
    (sessions.work / OFF_FILE).touch()
    await sessions.capture("s2", "What else is at the pier?")

    assert len(await sessions.stored()) == 2
    assert await sessions.recall("start", "s3") == ""
    assert await sessions.recall("prompt", "s3", "Where do the ferries dock now?") == ""


@pytest.mark.parametrize(("only", "exclude"), [(("~/elsewhere",), ()), ((), ("*",)), ((), ("/",))])
async def test_places_that_settings_leave_out_are_left_out(
    sessions: Sessions, only: tuple[str, ...], exclude: tuple[str, ...]
) -> None:
    settings = replace(sessions.settings, only=only, exclude=exclude)
    sessions.hooks = Hooks(sessions.service, settings)

    await sessions.capture("s1", "Where do ferries dock?")

    assert await sessions.stored() == []


async def test_an_alias_of_the_store_files_sessions_elsewhere_and_an_exclusion_leaves_them_out(
    sessions: Sessions,
) -> None:
    me = await sessions.service.access.local_principal()
    own = str(sessions.work)
    await sessions.service.projects.alias(me, own, same_as="shop")

    await sessions.capture("s1", "Where do ferries dock?", "At the north pier.")

    page = await sessions.service.conversations.list_conversations(me, ConversationQuery())
    assert [each.project for each in page.conversations] == ["shop"]
    assert "north pier" in await sessions.recall("start", "s3", source="startup")
    await sessions.service.projects.exclude(me, own)
    await sessions.capture("s2", "What else is at the pier?")
    assert len(await sessions.stored()) == 2
    assert await sessions.recall("start", "s4", source="startup") == ""
    await sessions.service.projects.reset(me, own)
    await sessions.capture("s2", "And now?")
    assert {each.project for each in await sessions.service.projects.count(me)} == {"shop", own}


async def test_a_record_of_nothing_does_not_stop_the_others(
    sessions: Sessions, tmp_path: Path
) -> None:
    home = str(sessions.settings.home)
    append(home, {"client": "claude", "transcript": str(tmp_path / "missing.jsonl")})
    append(home, {"client": "claude", "transcript": str(tmp_path)})
    append(home, {"client": "unheard-of", "transcript": "/x"})
    append(home, {"client": "claude", "transcript": 7})
    await sessions.capture("s1", "Where do ferries dock?")

    assert await sessions.stored() == ["Where do ferries dock?"]
    assert not Drain(home).open()


async def test_a_store_that_takes_nothing_leaves_the_spool_for_the_next_time(
    sessions: Sessions,
) -> None:
    me = await sessions.service.access.local_principal()
    change = sessions.service.operator.change_organization
    await change(me.organization_id, OrganizationChange(messages_max=1))
    await sessions.capture("s1", "Where do ferries dock?", "At the north pier.")
    assert await sessions.stored() == []

    await change(me.organization_id, OrganizationChange(messages_max=None))

    assert len(await sessions.hooks.drain()) == 1
    assert await sessions.stored() == ["Where do ferries dock?", "At the north pier."]
