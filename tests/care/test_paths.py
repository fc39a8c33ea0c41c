"""No path leads out of the data directory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.care.paths import DataDirectory
from engram.errors import (
    ConflictError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data directory beside a secret."""
    (tmp_path / "secret.md").write_text("secret")
    root = tmp_path / "data"
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a.md").write_text("inside")
    return root


def test_without_a_data_directory_every_path_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="ENGRAM_DATA_DIR"):
        DataDirectory(None).place("a.md")


@pytest.mark.parametrize("path", ["notes/a.md", "./notes/./a.md", "notes//a.md"])
def test_a_file_below_the_directory_is_read(root: Path, path: str) -> None:
    assert DataDirectory(root).place(path).read(bytes_max=10) == b"inside"


def test_an_absolute_path_below_the_directory_is_read(root: Path) -> None:
    place = DataDirectory(root).place(str(root / "notes" / "a.md"))

    assert place.read(bytes_max=10) == b"inside"
    assert place.shown == "notes/a.md"


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "notes/../../secret.md",
        "notes/../notes/a.md",
        "..\\secret.md",
        "/etc/passwd",
        "",
        "a\0b",
        "a\ud800",
        "x" * 5_000,
        "x" * 256,
        "notes/" + "\u00e9" * 128,
    ],
)
def test_a_path_that_leads_out_or_is_none_is_refused(root: Path, path: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        DataDirectory(root).place(path, field="output_path")
    assert caught.value.field == "output_path"


def test_an_absolute_path_beside_the_directory_is_refused(root: Path) -> None:
    beside = Path(f"{root}-other")
    beside.mkdir()

    with pytest.raises(InvalidRequestError):
        DataDirectory(root).place(str(beside))


def test_links_that_lead_out_are_refused(root: Path, tmp_path: Path) -> None:
    (root / "file.md").symlink_to(tmp_path / "secret.md")
    (root / "up").symlink_to(tmp_path)
    (root / "circle").symlink_to(root / "circle")

    for path in ("file.md", "up/secret.md", "up", "circle"):
        with pytest.raises(InvalidRequestError):
            DataDirectory(root).place(path)


def test_a_link_that_stays_inside_is_followed(root: Path) -> None:
    (root / "link.md").symlink_to(root / "notes" / "a.md")

    assert DataDirectory(root).place("link.md").read(bytes_max=10) == b"inside"


def test_the_directory_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(root)

    assert DataDirectory(tmp_path / "linked").place("notes/a.md").read(bytes_max=9) == b"inside"


@pytest.mark.parametrize("swapped", ["notes", "notes/a.md"])
def test_a_link_put_there_after_the_check_leads_nowhere(
    root: Path, tmp_path: Path, swapped: str
) -> None:
    place = DataDirectory(root).place("notes/a.md")
    (root / swapped).rename(tmp_path / "moved")
    (tmp_path / "a.md").write_text("secret")
    (root / swapped).symlink_to(tmp_path if swapped == "notes" else tmp_path / "secret.md")

    with pytest.raises(EngramError):
        place.read(bytes_max=10)


def test_pipes_devices_and_directories_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe.md")

    with pytest.raises(InvalidRequestError):
        DataDirectory(root).place("pipe.md").read(bytes_max=10)
    with pytest.raises(EngramError):
        DataDirectory(root).place("notes").read(bytes_max=10)
    with pytest.raises(NotFoundError):
        DataDirectory(root).place("notes/absent.md").read(bytes_max=10)


def test_a_file_that_is_too_long_is_named(root: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"notes/a\.md"):
        DataDirectory(root).place("notes/a.md").read(bytes_max=5)


def test_what_a_directory_holds_comes_by_name_and_without_links(root: Path) -> None:
    (root / "notes" / "0.md").write_text("")
    (root / "notes" / "z.md").symlink_to(root / "notes" / "a.md")

    found = DataDirectory(root).place("notes").children()

    assert [place.shown for place in found] == ["notes/0.md", "notes/a.md"]


def test_writing_replaces_a_file_and_nothing_else(root: Path) -> None:
    place = DataDirectory(root).place("new/deep")
    place.make_directory()
    place.child("x.md").write(b"one")
    place.child("x.md").write(b"two")

    assert (root / "new" / "deep" / "x.md").read_bytes() == b"two"
    assert [each.name for each in place.children()] == ["x.md"]
    with pytest.raises(ConflictError):
        DataDirectory(root).place("notes").write(b"")
    with pytest.raises(ConflictError):
        DataDirectory(root).place("notes/a.md/below").make_directory()


def test_what_the_system_refuses_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)

    with pytest.raises(UnavailableError, match="No space left"):
        DataDirectory(root).place("notes/b.md").write(b"text")


def test_a_missing_data_directory_is_made_by_the_first_export(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path / "not" / "there").place("out")

    place.make_directory()
    place.child("x.md").write(b"one")

    assert place.child("x.md").read(bytes_max=9) == b"one"


@given(st.text(max_size=40))
def test_any_text_is_below_the_directory_or_refused(root: Path, path: str) -> None:
    try:
        place = DataDirectory(root).place(path)
    except InvalidRequestError:
        return
    assert place.path.resolve().is_relative_to(root.resolve())
