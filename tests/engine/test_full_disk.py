"""A full file system under an engine: it refuses what it cannot write, and goes on."""

from __future__ import annotations

from pathlib import Path

from tests.small_disk import run_on_small_disk

SIZE_BYTES = 4_000_000
LETTER = "The letter came by post"


def test_an_engine_on_a_full_disk_refuses_writes_and_serves_old_and_new_clients(
    tmp_path: Path,
) -> None:
    shown = run_on_small_disk("tests.engine.programs.full_disk", tmp_path, size_bytes=SIZE_BYTES)

    assert shown["refused"]["isError"]
    assert shown["refused"]["_meta"]["engram/error"]["code"] == "store_full"
    assert LETTER in shown["found"]
    assert LETTER in shown["found_late"]
    assert shown["same_engine"]
    assert "isError" not in shown["kept"]
    assert (shown["log"], shown["log_of_late"]) == ("", "")
