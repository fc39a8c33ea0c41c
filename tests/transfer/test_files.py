"""No path leads out of the directory of its organisation."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import (
    ConflictError,
    EngramError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    UnavailableError,
)
from engram.model.ids import OrganizationId
from engram.transfer.data_directory import DataDirectory
from engram.transfer.files import SafePath
from tests.promises import promise

pytestmark = promise("files")

OURS = OrganizationId("org_ours")


def path_at(root: Path, path: str, *, field: str = "path") -> SafePath:
    """Return where a path of the organisation leads."""
    return DataDirectory(root.parent).locate(OURS, path, field=field)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of an organisation beside another's secret."""
    (tmp_path / "data" / "org_other").mkdir(parents=True)
    (tmp_path / "data" / "org_other" / "secret.md").write_text("secret")
    (tmp_path / "secret.md").write_text("secret")
    root = tmp_path / "data" / OURS
    (root / "notes").mkdir(parents=True)
    (root / "notes" / "a.md").write_text("inside")
    return root


def test_without_a_data_directory_every_path_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="ENGRAM_DATA_DIR"):
        DataDirectory(None).locate(OURS, "a.md")


@pytest.mark.parametrize("path", ["notes/a.md", "./notes/./a.md", "notes//a.md"])
def test_a_file_below_the_directory_is_read(root: Path, path: str) -> None:
    assert path_at(root, path).read(bytes_max=10) == b"inside"


def test_an_absolute_path_is_refused_wherever_it_leads(root: Path) -> None:
    for path in (root / "notes" / "a.md", root, Path("/")):
        with pytest.raises(InvalidRequestError, match="relative"):
            path_at(root, str(path))


def test_a_path_is_shown_without_the_name_of_the_directory(root: Path) -> None:
    assert path_at(root, "notes/a.md").shown == "notes/a.md"
    assert path_at(root, ".").shown == "."


@pytest.mark.parametrize(
    "path",
    [
        "../secret.md",
        "../org_other/secret.md",
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
        path_at(root, path, field="output_path")
    assert caught.value.field == "output_path"


def test_links_are_refused_wherever_they_lead(root: Path, tmp_path: Path) -> None:
    (root / "file.md").symlink_to(tmp_path / "secret.md")
    (root / "up").symlink_to(tmp_path)
    (root / "circle").symlink_to(root / "circle")
    (root / "inside").symlink_to(root / "notes")

    for path in ("file.md", "up/secret.md", "up", "circle", "inside", "inside/a.md"):
        with pytest.raises(InvalidRequestError, match="link"):
            path_at(root, path)


@pytest.mark.parametrize("path", [".", "secret.md", "new/deep"])
def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path: Path, path: str) -> None:
    other = tmp_path / "data" / "org_other"
    other.mkdir(parents=True)
    (other / "secret.md").write_text("secret")
    (tmp_path / "data" / OURS).symlink_to(other)

    with pytest.raises(InvalidRequestError, match="link"):
        path_at(tmp_path / "data" / OURS, path)


def test_the_data_directory_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(root.parent)

    assert path_at(tmp_path / "linked" / OURS, "notes/a.md").read(bytes_max=9) == b"inside"


def test_a_path_of_too_many_names_is_refused(root: Path) -> None:
    with pytest.raises(LimitExceededError):
        path_at(root, "a/" * (limits.PATH_PARTS_MAX + 1))


@pytest.mark.parametrize("swapped", [".", "notes", "notes/a.md"])
def test_a_link_put_there_after_the_check_leads_nowhere(
    root: Path, tmp_path: Path, swapped: str
) -> None:
    path = path_at(root, "notes/a.md")
    secrets = tmp_path / "secrets"
    (secrets / "notes").mkdir(parents=True)
    for each in (secrets / "a.md", secrets / "notes" / "a.md"):
        each.write_text("secret")
    (root / swapped).rename(tmp_path / "moved")
    (root / swapped).symlink_to(secrets / "a.md" if swapped == "notes/a.md" else secrets)

    with pytest.raises(EngramError):
        path.read(bytes_max=10)
    with pytest.raises(EngramError):
        path.write(b"overwritten")
    with pytest.raises(EngramError):
        path.child("below").make_directory()
    path.remove() if swapped == "notes/a.md" else None
    assert path.size() in (0, len(str(secrets / "a.md")))
    assert {each.read_text() for each in secrets.rglob("*.md")} == {"secret"}


def test_pipes_devices_and_directories_are_no_files(root: Path) -> None:
    os.mkfifo(root / "pipe.md")

    with pytest.raises(InvalidRequestError):
        path_at(root, "pipe.md").read(bytes_max=10)
    with pytest.raises(EngramError):
        path_at(root, "notes").read(bytes_max=10)
    with pytest.raises(NotFoundError):
        path_at(root, "notes/absent.md").read(bytes_max=10)


def test_a_file_that_is_too_long_is_named(root: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"notes/a\.md"):
        path_at(root, "notes/a.md").read(bytes_max=5)


def test_what_a_directory_holds_comes_by_name_and_without_links(root: Path) -> None:
    (root / "notes" / "0.md").write_text("")
    (root / "notes" / "z.md").symlink_to(root / "notes" / "a.md")

    found = path_at(root, "notes").children()

    assert [path.shown for path in found] == ["notes/0.md", "notes/a.md"]


def test_writing_replaces_a_file_and_nothing_else(root: Path) -> None:
    path = path_at(root, "new/deep")
    path.make_directory()
    path.child("x.md").write(b"one")
    path.child("x.md").write(b"two")

    assert (root / "new" / "deep" / "x.md").read_bytes() == b"two"
    assert [each.name for each in path.children()] == ["x.md"]
    assert [each.stat().st_mode & 0o777 for each in (root / "new", root / "new" / "deep")] == [
        0o700,
        0o700,
    ]
    with pytest.raises(ConflictError):
        path_at(root, "notes").write(b"")
    with pytest.raises(ConflictError):
        path_at(root, "notes/a.md/below").make_directory()


def test_what_the_system_refuses_is_told(root: Path) -> None:
    path = path_at(root, "notes/b.md")
    bounds = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, bounds[1]))
    try:
        with pytest.raises(UnavailableError, match="File too large"):
            path.write(b"more than ten bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, bounds)
    assert path.kind() is None


def test_a_missing_data_directory_is_made_by_the_first_export(tmp_path: Path) -> None:
    path = path_at(tmp_path / "not" / "there" / OURS, "out")

    path.make_directory()
    path.child("x.md").write(b"one")

    assert path.child("x.md").read(bytes_max=9) == b"one"
    assert (tmp_path / "not" / "there" / OURS).stat().st_mode & 0o777 == 0o700


@given(st.text(max_size=40))
def test_any_text_is_below_the_directory_or_refused(root: Path, text: str) -> None:
    try:
        path = path_at(root, text)
    except InvalidRequestError:
        return
    assert path.base.joinpath(*path.parts).resolve().is_relative_to(root.resolve())
