"""Files grow, are rewritten, torn, damaged and changed in format; an import takes what it can, once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engram import limits
from engram.errors import QuotaExceededError
from engram.model.access import Quota
from engram.model.value import replace
from engram.sources.batches import Choices
from engram.sources.policy import Policy
from engram.sources.registry import SOURCES
from engram.sources.values import Source
from tests.sources.imports import POLICY, Importer, write_lines
from tests.sources.test_claude import record

SECRET = "sk-ant-" + "api03-abcdefghijklmnopqrstuvwx"


def lines(*ids: str) -> list[dict[str, object]]:
    return [record("user", each, f"said {each}") for each in ids]


async def test_a_grown_file_costs_its_tail(importer: Importer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a", "b"))
    await importer("claude", path)
    write_lines(path, lines("a", "b", "c"))

    report = await importer("claude", path)

    assert (1, 1) == (report.tally.read, report.stored)
    assert [[("user", f"said {each}") for each in "abc"]] == await importer.said()


async def test_a_rewritten_file_is_read_again(importer: Importer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a", "b"))
    await importer("claude", path)
    write_lines(path, lines("0", "a", "b"))

    report = await importer("claude", path)

    assert (3, 1, 2) == (report.tally.read, report.stored, report.known)


async def test_a_torn_line_waits_for_its_end(importer: Importer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a"), torn='{"type": "user", "uui')
    first = await importer("claude", path)
    write_lines(path, lines("a", "b"))

    second = await importer("claude", path)

    assert not first.tally.skipped
    assert (1, 1) == (second.tally.read, second.stored)


async def test_a_last_line_without_its_end_is_read(importer: Importer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a", "b"))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))

    assert 2 == (await importer("claude", path)).stored


async def test_bad_lines_cost_themselves(
    importer: Importer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOURCE_LINE_BYTES_MAX", 1_000)
    path = write_lines(tmp_path / "s1.jsonl", lines("a"))
    with path.open("ab") as file:
        file.write(b"{broken\n" + b'"text"\n' + b"[" * 5_000 + b"\n" + b'{"type": "novelty"}\n\n')
    with path.open("a", encoding="utf-8") as file:
        file.write('{"type":"user","uuid":"h","message":{"content":"half \\ud83d pair"}}\n')

    report = await importer("claude", path)

    assert {"invalid JSON": 2, "line too long": 1} == report.tally.skipped
    assert {"novelty": 1} == report.tally.drift
    assert 2 == report.stored
    assert [[("user", "said a"), ("user", "half \ufffd pair")]] == await importer.said()
    assert not (await importer("claude", path)).tally.read


async def test_a_deleted_session_stays_deleted(importer: Importer, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a"))
    await importer("claude", path)
    (conversation,) = await importer.conversations()
    await importer.service.conversations.delete_conversation(importer.me, conversation.id)
    write_lines(path, lines("a", "b"))

    report = await importer("claude", path, reread=True)

    assert (0, 2) == (report.stored, report.forgotten)
    assert [] == await importer.said()


async def test_a_dry_run_stores_nothing_and_remembers_nothing(
    importer: Importer, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a"))

    planned = await importer("claude", path, is_dry_run=True)

    assert 1 == planned.stored
    assert [] == await importer.said()
    assert 1 == (await importer("claude", path)).stored


async def test_only_what_was_said_since_is_imported(importer: Importer, tmp_path: Path) -> None:
    old = record("user", "old", "said long ago", timestamp="2020-01-01T00:00:00Z")
    path = write_lines(tmp_path / "s1.jsonl", [old, *lines("new")])

    report = await importer("claude", path, since=datetime(2026, 1, 1, tzinfo=UTC))

    assert {"before --since": 1} == report.tally.skipped
    assert [[("user", "said new")]] == await importer.said()
    assert 1 == (await importer("claude", path)).stored


async def test_long_tool_results_say_what_is_missing(importer: Importer, tmp_path: Path) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x" * 30}
    path = write_lines(tmp_path / "s1.jsonl", [record("user", "u", [result])])

    await importer("claude", path, tool_characters_max=10)

    ((said,),) = await importer.said()
    assert ("tool", "x" * 10 + "\n[20 more characters were not imported]") == said


async def test_a_session_of_many_messages_keeps_their_order(
    importer: Importer, tmp_path: Path
) -> None:
    ids = [f"m{number:03}" for number in range(450)]
    path = write_lines(tmp_path / "s1.jsonl", lines(*ids))

    await importer("claude", path)

    (said,) = await importer.said()
    assert [f"said {each}" for each in ids] == [content for _, content in said]


async def test_a_file_that_cannot_be_read_is_reported(importer: Importer, tmp_path: Path) -> None:
    write_lines(tmp_path / "s1.jsonl", lines("a"))
    locked = write_lines(tmp_path / "s2.jsonl", lines("b"))
    locked.unlink()
    locked.symlink_to(tmp_path)

    report = await importer.service.importing.import_files(
        importer.me,
        _claude(),
        [tmp_path / "s1.jsonl", locked],
        ledger=importer.ledger,
        choices=Choices(policy=POLICY),
    )

    assert 1 == report.stored
    assert [str(locked)] == list(report.failed)


async def test_a_full_quota_stops_an_import_without_loss(
    importer: Importer, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a", "b"))
    bounded = replace(importer.me, quota=Quota(messages_max=1))

    with pytest.raises(QuotaExceededError):
        await importer.service.importing.import_files(
            bounded,
            _claude(),
            [path],
            ledger=importer.ledger,
            choices=Choices(policy=POLICY),
        )

    assert 2 == (await importer("claude", path)).stored


def _claude() -> Source:

    return SOURCES["claude"]


async def test_private_parts_secrets_and_own_injections_are_not_stored(
    importer: Importer, tmp_path: Path
) -> None:
    texts = [
        "the plan <private>is secret</private>",
        "<private>all of it</private>",
        f"key {SECRET} in use",
        "<memory_context>\nrecalled\n</memory_context>",
    ]
    records = [record("user", f"u{place}", text) for place, text in enumerate(texts)]
    path = write_lines(tmp_path / "s1.jsonl", records)

    report = await importer("claude", path)

    kept = ["the plan [private]", "key [redacted:anthropic-key] in use"]
    assert [[("user", each) for each in kept]] == await importer.said()
    assert {"private or empty": 2} == report.tally.skipped


async def test_sessions_of_excluded_directories_are_left_out(
    importer: Importer, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "s1.jsonl", lines("a"))
    policy = Policy(home=Path("/home/someone"), never=("/srv/harbour",))

    report = await importer("claude", path, policy=policy)

    assert {"memory is off there": 1} == report.tally.skipped
    assert [] == await importer.said()


async def test_aliases_and_exclusions_of_the_store_hold_for_imports(
    importer: Importer, tmp_path: Path
) -> None:
    write_lines(tmp_path / "s1.jsonl", lines("a"))
    write_lines(tmp_path / "s2.jsonl", [record("user", "b", "b", sessionId="s2", cwd=None)])
    await importer.service.projects.alias(importer.me, "/srv/harbour", same_as="harbour")
    await importer.service.projects.exclude(importer.me, "default")

    report = await importer("claude", tmp_path)

    assert ["harbour"] == [each.project for each in await importer.conversations()]
    assert {"memory is off there": 1} == report.tally.skipped


async def test_the_project_is_that_of_the_directory(importer: Importer, tmp_path: Path) -> None:
    write_lines(tmp_path / "s1.jsonl", lines("a"))
    write_lines(tmp_path / "s2.jsonl", [record("user", "b", "b", sessionId="s2", cwd=None)])

    report = await importer("claude", tmp_path)

    projects = {each.metadata["session"]: each.project for each in await importer.conversations()}
    assert {"s1": "/srv/harbour", "s2": "default"} == projects
    assert 1 == report.unattributed


async def test_two_imports_at_once_store_everything_once(
    importer: Importer, tmp_path: Path
) -> None:
    for number in range(6):
        named = [{**each, "sessionId": f"s{number}"} for each in lines(*map(str, range(40)))]
        write_lines(tmp_path / f"s{number}.jsonl", named)

    reports = await asyncio.gather(*(importer("claude", tmp_path, reread=True) for _ in range(3)))

    assert 240 == sum(report.stored for report in reports)
    assert 480 == sum(report.known for report in reports)
    assert [40] * 6 == [each.message_count for each in await importer.conversations()]


async def test_a_path_of_another_system_is_a_name_alone(importer: Importer, tmp_path: Path) -> None:
    strange = "C:\\harbour"
    path = write_lines(tmp_path / "s1.jsonl", [record("user", "a", "a", cwd=strange)])

    await importer("claude", path)

    (conversation,) = await importer.conversations()
    assert strange == conversation.project


async def test_where_only_chosen_places_count_unknown_ones_do_not(
    importer: Importer, tmp_path: Path
) -> None:
    records = [record("user", "a", "a", cwd="relative"), record("user", "b", "b", cwd=None)]
    named = [{**each, "sessionId": each["uuid"]} for each in records]
    path = write_lines(tmp_path / "s1.jsonl", named)
    chosen = Policy(home=tmp_path, only=("/srv/*",))

    report = await importer("claude", path, policy=chosen)
    told = await importer("claude", path, policy=chosen, project="attic", reread=True)

    assert {"memory is off there": 2} == report.tally.skipped
    assert {"memory is off there": 1} == told.tally.skipped
    assert [[("user", "b")]] == await importer.said()
