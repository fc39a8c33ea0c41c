"""Exports of earlier versions come to the directories of their organisations, once and whole."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from engram.transfer.data_directory import MOVED, UNCLAIMED, DataDirectory
from engram.transfer.markdown_directory import MARKER
from tests.promises import promise

OURS, THEIRS = "org_ours", "org_theirs"
KNOWN = (OURS, THEIRS)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    made.mkdir()
    return made


def put_export(root: Path, path: str, owner: str | None, *, text: str = "") -> None:
    """Make an export as earlier versions did; without an owner its mark cannot be read."""
    directory = root / path
    for name in ("memories", "episodes"):
        (directory / name).mkdir(parents=True)
    facts = json.dumps({"engram": 1, "organization_id": owner, "finished": True})
    (directory / MARKER).write_text(facts if owner else "{")
    (directory / "memories" / "00000001-mem_x.md").write_text(text or f"of {owner}")


def texts_below(directory: Path) -> dict[str, str]:
    """Return the memories of all exports below a directory by the paths of the exports."""
    return {
        str(file.parents[1].relative_to(directory)): file.read_text()
        for file in directory.rglob("memories/*.md")
    }


def test_each_export_keeps_its_path_in_the_directory_of_its_organisation(root: Path) -> None:
    put_export(root, "out", OURS)
    put_export(root, "deep/down/out", THEIRS)
    (root / "notes.md").write_text("of the operator")

    assert DataDirectory(root).move_old_exports(KNOWN) == []

    assert texts_below(root) == {
        f"{OURS}/out": f"of {OURS}",
        f"{THEIRS}/deep/down/out": f"of {THEIRS}",
    }
    assert (root / OURS / "out" / MARKER).exists()
    assert (root / OURS).stat().st_mode & 0o777 == 0o700
    assert (root / "notes.md").exists()
    assert not DataDirectory(root).may_have_old_exports()


def test_an_export_of_the_whole_directory_becomes_one_of_the_organisations(root: Path) -> None:
    put_export(root, ".", OURS)
    put_export(root, "out", OURS, text="another")

    DataDirectory(root).move_old_exports(KNOWN)

    assert texts_below(root / OURS) == {".": f"of {OURS}", "out": "another"}
    assert {path.name for path in root.iterdir()} == {OURS, MOVED}


def test_an_export_in_anothers_directory_or_export_is_given_back(root: Path) -> None:
    put_export(root, f"{OURS}/out", THEIRS)
    put_export(root, "nested", OURS)
    put_export(root, "nested/inner", THEIRS)

    DataDirectory(root).move_old_exports(KNOWN)

    assert texts_below(root / OURS) == {"nested": f"of {OURS}"}
    assert set(texts_below(root / THEIRS)) == {f"{OURS}/out", "nested/inner"}


def test_no_export_takes_the_place_of_another(root: Path) -> None:
    put_export(root, f"{OURS}/out", OURS, text="there before")
    put_export(root, "out", OURS, text="moved")
    put_export(root, OURS, OURS, text="the whole directory")
    put_export(root, ".", OURS, text="the data directory")

    DataDirectory(root).move_old_exports(KNOWN)

    assert texts_below(root / OURS) == {
        ".": "the whole directory",
        "out": "there before",
        "out-2": "moved",
        "root-export": "the data directory",
    }


def test_exports_of_nobody_are_put_aside_and_named(root: Path) -> None:
    put_export(root, "old", "org_gone")
    put_export(root, "odd", None)
    put_export(root, "ours/inner", "org_gone")
    put_export(root, "ours", OURS)

    assert sorted(DataDirectory(root).move_old_exports(KNOWN)) == ["odd", "old", "ours/inner"]

    assert texts_below(root / OURS) == {"ours": f"of {OURS}"}
    assert set(texts_below(root / UNCLAIMED)) == {"odd", "old", "ours/inner"}


def test_what_was_put_aside_is_given_to_its_organisation_once_that_is_known(root: Path) -> None:
    put_export(root, "out", OURS)
    put_export(root, ".", THEIRS)
    DataDirectory(root).move_old_exports(())

    assert DataDirectory(root).may_have_old_exports()
    assert DataDirectory(root).move_old_exports(KNOWN) == []

    assert texts_below(root / OURS) == {"out": f"of {OURS}"}
    assert texts_below(root / THEIRS) == {".": f"of {THEIRS}"}


def test_an_export_that_the_operator_gave_to_an_organisation_stays_there(root: Path) -> None:
    put_export(root, f"{OURS}/in", "org_of_another_installation")

    assert DataDirectory(root).move_old_exports(KNOWN) == []

    assert set(texts_below(root / OURS)) == {"in"}


def test_links_are_neither_followed_nor_moved(root: Path, tmp_path: Path) -> None:
    put_export(tmp_path, "elsewhere", OURS)
    (root / "link").symlink_to(tmp_path / "elsewhere")
    (root / "circle").symlink_to(root)

    DataDirectory(root).move_old_exports(KNOWN)

    assert set(texts_below(tmp_path / "elsewhere")) == {"."}
    assert {path.name for path in root.iterdir()} == {"link", "circle", MOVED}


def everything(root: Path) -> Mapping[str, str]:
    put_export(root, ".", OURS)
    for number in range(20):
        put_export(root, f"a/{number}", OURS, text=f"ours {number}")
        put_export(root, f"a/{number}/b", THEIRS, text=f"theirs {number}")
    put_export(root, "old", "org_gone")
    return {
        f"{OURS}/.": f"of {OURS}",
        f"{UNCLAIMED}/old": "of org_gone",
        **{f"{OURS}/a/{number}": f"ours {number}" for number in range(20)},
        **{f"{THEIRS}/a/{number}/b": f"theirs {number}" for number in range(20)},
    }


def found(root: Path) -> Mapping[str, str]:
    return {
        f"{part.name}/{path}": text
        for part in (root / OURS, root / THEIRS, root / UNCLAIMED)
        for path, text in texts_below(part).items()
    }


def test_moving_twice_changes_nothing_more(root: Path) -> None:
    wanted = everything(root)

    for _ in range(2):
        assert DataDirectory(root).move_old_exports(KNOWN) == ["old"]
        assert found(root) == wanted


MOVE = f"""
import os, signal, sys
from pathlib import Path
from engram.transfer.data_directory import DataDirectory

root, renames = Path(sys.argv[1]), int(sys.argv[2])
replace = os.replace

def replace_or_die(*names, **handles):
    global renames
    print("moving", flush=True)
    sys.stdin.read()
    renames -= 1
    if renames < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*names, **handles)

os.replace = replace_or_die
DataDirectory(root).move_old_exports({KNOWN})
"""
"""A process that moves exports once its input ends, and dies when it has renamed so many."""


def start_move(root: Path, *, renames: int = 1_000) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MOVE, str(root), str(renames)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_several_processes_that_move_at_once_lose_nothing(root: Path) -> None:
    wanted = everything(root)

    movers = [start_move(root) for _ in range(3)]
    for mover in movers:
        assert mover.stdin
        mover.stdin.close()
    for mover in movers:
        with mover:
            assert mover.wait(60) == 0

    assert found(root) == wanted


def test_nobody_else_moves_while_one_process_does(root: Path) -> None:
    put_export(root, ".", OURS)
    with start_move(root) as mover, closing_descriptor(root) as other:
        assert mover.stdout
        assert mover.stdout.readline() == b"moving\n"

        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    assert texts_below(root / OURS) == {".": f"of {OURS}"}


@contextmanager
def closing_descriptor(directory: Path) -> Generator[int]:
    descriptor = os.open(directory, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@promise("durable")
@pytest.mark.parametrize("renames", [0, 1, 21, 40, 41, 42, 43, 44])
def test_a_move_that_was_killed_anywhere_is_finished_by_the_next(root: Path, renames: int) -> None:
    wanted = everything(root)
    start_move(root, renames=renames).communicate(timeout=60)
    assert DataDirectory(root).may_have_old_exports()

    DataDirectory(root).move_old_exports(KNOWN)

    assert found(root) == wanted
