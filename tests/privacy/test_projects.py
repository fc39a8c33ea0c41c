"""A directory belongs to one project, whichever worktree, clone or folder of it one works in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from engram import limits
from engram.privacy.consent import OFF_FILE, is_remembered
from engram.privacy.projects import place_of


def git(directory: Path, *arguments: str) -> None:
    named = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "init.defaultBranch=main"]
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", *named, *arguments], cwd=directory, check=True, capture_output=True)


def repository(directory: Path, *, remote: str | None = None) -> Path:
    git(directory, "init")
    git(directory, "commit", "--allow-empty", "-m", "first")
    if remote:
        git(directory, "remote", "add", "upstream", "https://example.org/other/thing.git")
        git(directory, "remote", "add", "origin", remote)
    return directory


def project(directory: Path, home: Path, **aliases: str) -> str:
    return place_of(directory, home=home, aliases=aliases).project


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/acme/shop.git",
        "https://me:pass@GitHub.com/acme/shop",
        "git@github.com:acme/shop.git",
        "ssh://git@github.com:22/acme/shop.git/",
    ],
)
def test_all_clones_of_a_remote_are_one_project(tmp_path: Path, remote: str) -> None:
    shop = repository(tmp_path / "code" / "shop", remote=remote)

    assert project(shop, tmp_path) == "github.com/acme/shop"
    assert project(shop / "src" / "deep", tmp_path) == "github.com/acme/shop"


def test_a_worktree_belongs_to_the_main_checkout(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "worktree", "add", str(tmp_path / "elsewhere" / "feature"))

    place = place_of(tmp_path / "elsewhere" / "feature", home=tmp_path)

    assert place == place_of(shop, home=tmp_path)
    assert place.root == shop
    assert place.project == "~/shop"


def test_repositories_with_one_name_are_two_projects(tmp_path: Path) -> None:
    first = repository(tmp_path / "a" / "shop", remote="git@github.com:acme/shop.git")
    second = repository(tmp_path / "b" / "shop", remote="git@gitlab.com:acme/shop.git")
    third = repository(tmp_path / "c" / "shop")

    assert len({project(each, tmp_path) for each in (first, second, third)}) == 3


def test_a_remote_on_the_disk_names_nothing(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop", remote=str(tmp_path / "origin.git"))

    assert project(shop, tmp_path) == "~/shop"


def test_a_directory_without_repository_is_its_path(tmp_path: Path) -> None:
    assert project(tmp_path / "notes", tmp_path) == "~/notes"
    assert project(tmp_path, tmp_path) == "default"
    assert project(Path("/srv/data"), tmp_path) == "/srv/data"


def test_an_alias_names_a_directory_and_all_below_or_a_project(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop", remote="git@github.com:acme/shop.git")
    aliases = {"github.com/acme/shop": "Shop", "~/notes": "Notes", str(tmp_path / "deep"): "Deep"}

    assert project(shop / "src", tmp_path, **aliases) == "Shop"
    assert project(tmp_path / "notes" / "2026", tmp_path, **aliases) == "Notes"
    assert project(tmp_path / "deep", tmp_path, **aliases) == "Deep"


def test_names_that_are_too_long_stay_different(tmp_path: Path) -> None:
    first, second = (project(Path(f"/{each}/{'x' * 200}"), tmp_path) for each in "ab")

    assert first != second
    assert max(len(first), len(second)) <= limits.PROJECT_CHARACTERS_MAX


def remembered(
    directory: Path, home: Path, *, only: tuple[str, ...] = (), never: tuple[str, ...] = ()
) -> bool:
    place = place_of(directory, home=home)
    return is_remembered(directory, place, home=home, only=only, never=never)


def test_a_file_switches_memory_off_for_all_below_it_and_for_worktrees(tmp_path: Path) -> None:
    shop = repository(tmp_path / "shop")
    git(shop, "worktree", "add", str(tmp_path / "feature"))
    assert remembered(shop / "src", tmp_path)

    (shop / OFF_FILE).touch()

    assert not remembered(shop / "src", tmp_path)
    assert not remembered(tmp_path / "feature", tmp_path)
    assert not remembered(shop, tmp_path, only=("~/shop",))


@pytest.mark.parametrize("pattern", ["~/shop", "~/shop/", "~/sh*", "github.com/acme/*", "*/shop"])
def test_places_are_excluded_and_admitted_by_path_or_project(tmp_path: Path, pattern: str) -> None:
    shop = repository(tmp_path / "shop", remote="git@github.com:acme/shop.git")

    assert not remembered(shop / "src", tmp_path, never=(pattern,))
    assert remembered(shop / "src", tmp_path, only=(pattern,))
    assert remembered(tmp_path / "other", tmp_path, never=(pattern,))
    assert not remembered(tmp_path / "other", tmp_path, only=(pattern,))
    assert not remembered(shop, tmp_path, only=(pattern,), never=(pattern,))
