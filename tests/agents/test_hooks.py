"""Whole sessions of real coding agents after `engram connect`: stored once, and told to later ones."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.agents.coding_agents import ClaudeCode, CodingAgent
from tests.agents.memory import ENGRAM, Memory
from tests.agents.wires import ToolCall
from tests.small_disk import run_on_small_disk

LINE = "The heron stands in the reeds of the northern pond."
OUTCOME = "I have added a line to birds.md."
QUESTION = "Where does the heron stand?"
UNRELATED = (
    "Write a haiku about autumn rain",
    "Sort these numbers: 31, 4, 15, 92",
    "What is Finnish for good morning?",
    "Explain how a bicycle stays upright",
    "Which year did the Berlin Wall fall?",
    "Convert ten miles to kilometres",
)
ANSWER = "All right."
SUMMARY = "We spoke of birds."

SMALL_BYTES = 6_000_000
"""More than an empty store with its logs, and quickly filled."""

FENCED = re.compile("<memory_context>.*?</memory_context>", re.DOTALL)


def test_a_session_is_told_what_an_earlier_one_said_and_nothing_beside_the_point(
    newcomer: CodingAgent, memory: Memory
) -> None:
    memory.connect()
    newcomer.turn(LINE, says=OUTCOME)
    memory.wait_for(LINE, OUTCOME)

    asked = be_told(newcomer, [QUESTION] * len(UNRELATED), OUTCOME, LINE)
    aside = be_told(newcomer, UNRELATED, OUTCOME)

    # What was told is not part of it.
    memory.wait_for(LINE, OUTCOME, *asked, *aside)


def test_what_was_imported_is_not_captured_again_and_what_was_captured_not_imported(
    newcomer: CodingAgent, memory: Memory
) -> None:
    newcomer.turn(LINE, says=OUTCOME)
    assert memory.import_sessions() == 2
    memory.connect()

    newcomer.turn(QUESTION, says=ANSWER, resumes=True)

    memory.wait_for(LINE, OUTCOME, QUESTION, ANSWER)
    assert memory.import_sessions() == 0
    memory.wait_for(LINE, OUTCOME, QUESTION, ANSWER)


@pytest.mark.parametrize("newcomer", [ClaudeCode], indirect=True)
def test_a_session_that_is_compacted_is_stored_once_with_the_summary(
    newcomer: CodingAgent, memory: Memory
) -> None:
    memory.connect()
    newcomer.turn(LINE, says=OUTCOME)
    newcomer.turn("/compact", says=f"<summary>{SUMMARY}</summary>", resumes=True)
    newcomer.turn(QUESTION, says=ANSWER, resumes=True)

    messages = memory.wait_for_messages(5)

    (summary,) = [each["content"] for each in messages if each["role"] == "system"]
    assert SUMMARY in summary
    said = [each["content"] for each in messages if each["role"] != "system"]
    assert said == [LINE, OUTCOME, QUESTION, ANSWER]
    assert memory.import_sessions() == 0


@pytest.mark.parametrize("newcomer", [ClaudeCode], indirect=True)
def test_what_a_sub_agent_said_is_stored_once_below_its_session(
    newcomer: CodingAgent, memory: Memory
) -> None:
    memory.connect()
    task = {
        "description": "Look",
        "prompt": QUESTION,
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }

    newcomer.turn("Ask somebody.", ToolCall(tool="Agent", arguments=task, says=LINE))

    memory.wait_for_messages(6)
    by_title = {each["conversation"]["title"]: each for each in memory.conversations()}
    above, below = by_title.pop("Ask somebody."), by_title.pop(QUESTION)
    assert not by_title
    assert [each["content"] for each in below["messages"]] == [QUESTION, LINE]
    parent = below["conversation"]["metadata"]["parent_session"]
    assert parent == above["conversation"]["metadata"]["session"]
    assert memory.import_sessions() == 0


@pytest.mark.parametrize("newcomer", [ClaudeCode], indirect=True)
def test_hooks_that_run_twice_store_and_tell_once(newcomer: CodingAgent, memory: Memory) -> None:
    memory.connect()
    newcomer.turn(LINE, says=OUTCOME)
    memory.wait_for(LINE, OUTCOME)
    # Another file with the hooks in other words, as one client reads the files of another.
    events = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")
    hooks = {
        event: [{"hooks": [{"type": "command", "command": f"env AGAIN=1 {ENGRAM} hook {event}"}]}]
        for event in events
    }
    settings = newcomer.directory / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": hooks}))

    asked = be_told(newcomer, [QUESTION] * len(UNRELATED), OUTCOME, LINE)

    memory.wait_for(LINE, OUTCOME, *asked)
    assert memory.import_sessions() == 0


def test_a_full_disk_costs_no_turn_and_later_no_message(tmp_path: Path) -> None:
    data = tmp_path / "home" / ".local" / "share"
    data.mkdir(parents=True)

    shown = run_on_small_disk("tests.agents.programs.full_disk", data, size_bytes=SMALL_BYTES)

    assert shown["stored while full"] == [LINE, OUTCOME]
    assert shown["answers"] == [ANSWER, ANSWER]
    said = [LINE, OUTCOME, QUESTION, ANSWER, UNRELATED[0], ANSWER]
    assert sorted(shown["stored"]) == sorted(said)


def test_a_killed_engine_costs_no_turn_and_no_message(
    newcomer: CodingAgent, memory: Memory
) -> None:
    memory.connect()

    newcomer.turn(LINE, says=OUTCOME)
    memory.kill_engine()
    newcomer.turn(QUESTION, says=LINE, meanwhile=memory.kill_engine)
    newcomer.turn(UNRELATED[0], says=ANSWER)

    memory.wait_for(LINE, OUTCOME, QUESTION, LINE, UNRELATED[0], ANSWER)


def test_disconnecting_leaves_the_files_of_the_user_as_they_were(
    newcomer: CodingAgent, memory: Memory
) -> None:
    before = files_of(newcomer)
    memory.connect()
    connected = files_of(newcomer)
    newcomer.turn(LINE)
    used = files_of(newcomer)

    memory.run("disconnect", newcomer.client)

    after = files_of(newcomer)
    ours = {path for path, content in connected.items() if content != before.get(path)}
    unused = {path for path in ours if used[path] == connected[path]}
    assert unused
    assert {path: after.get(path) for path in unused} == {path: before.get(path) for path in unused}
    # An agent may write to its file: then only our entry is taken back.
    assert not any(ENGRAM.encode() in after.get(path, b"") for path in ours)


def be_told(agent: CodingAgent, prompts: Sequence[str], *lines: str) -> Sequence[str]:
    """Start sessions until one is told these lines, each in a text of its own; return all that was said.

    A hook that is late on a busy machine is silent, so a session may be told less. None is told more.
    """
    said, others = list[str](), list[Sequence[str]]()
    wanted = [[line] for line in lines]
    for prompt in prompts:
        turn = agent.turn(prompt, says=ANSWER)
        said += [prompt, ANSWER]
        texts = FENCED.findall(html.unescape("\n".join(turn.requests[0].texts)))
        told = [[line for line in (LINE, OUTCOME) if f": {line}\n" in text] for text in texts]
        if told == wanted:
            return said
        assert all(each in wanted for each in told), texts
        others.append(texts)
    pytest.fail(f"no session was told {lines}, but they were told {others}")


def files_of(agent: CodingAgent) -> dict[Path, bytes]:
    """Return the files in the agent's home but those of the store."""
    found = (path for path in agent.home.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in found if ".local" not in path.parts}
