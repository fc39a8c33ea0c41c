"""The commands of the guide to backups work as they are printed there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.backup.buckets import running_service
from tests.cli.commands import Engram

PAGE = (Path(__file__).parents[2] / "docs" / "backup.md").read_text(encoding="utf-8")
KEYGEN = f"""#!{sys.executable}
import pathlib, pyrage, sys
key = pyrage.x25519.Identity.generate()
pathlib.Path(sys.argv[2]).write_text(f"# public key: {{key.to_public()}}\\n{{key}}\\n")
"""
"""Does what `age-keygen -o FILE` does."""

DEADLINE_S = 60


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a store, and with what the guide takes for granted."""
    directory = tmp_path_factory.mktemp("guide")
    engram = Engram(directory / "store")
    engram("notes", "add", "the demo is on Friday")
    (directory / "bin").mkdir()
    keygen = directory / "bin" / "age-keygen"
    keygen.write_text(KEYGEN)
    keygen.chmod(0o700)
    return directory


def commands_of(heading: str) -> str:
    """Return the shell commands of a section of the guide."""
    sections = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    (section,) = [each for each in sections if each.partition("\n")[0] == heading]
    return "".join(re.findall(r"^```sh\n(.*?)^```", section, re.DOTALL | re.MULTILINE))


def script_of(heading: str, directory: Path) -> str:
    """Return these commands for a directory, and without what stands for a secret."""
    text = commands_of(heading).replace("/mnt/", f"{directory}/").replace("/srv/", f"{directory}/")
    return re.sub(r"^export AWS_.*\n", "", text, flags=re.MULTILINE)


def environment_of(directory: Path, more: Mapping[str, str]) -> dict[str, str]:
    inherited = Engram(directory / "store").environment()
    path = f"{directory / 'bin'}:{Path(sys.executable).parent}:{inherited['PATH']}"
    return {**inherited, "PATH": path, **more}


def run(heading: str, directory: Path, **more: str) -> str:
    """Run the commands of a section, each of which must succeed; return what they print."""
    done = subprocess.run(
        ["bash", "-euc", script_of(heading, directory)],
        cwd=directory,
        env=environment_of(directory, more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def backed_up(directory: Path) -> str:
    """Return what the first commands of the guide print."""
    return run("Backup and restore", directory)


def test_a_store_is_backed_up_listed_and_verified(backed_up: str) -> None:
    assert "2 of 2 files copied" in backed_up
    assert "no problems found" in backed_up


def test_a_backup_is_restored_elsewhere(backed_up: str, directory: Path) -> None:
    del backed_up

    printed = run("Restore", directory)

    assert printed.count("no problems found") == 2
    assert "no backup is that old" in printed
    found = Engram(directory / "restored")("search", "demo", "--json").json
    assert found["results"]


def test_backups_are_made_regularly_until_the_process_is_ended(
    backed_up: str, directory: Path
) -> None:
    del backed_up
    script = script_of("Regularly", directory).strip()

    with subprocess.Popen(
        ["bash", "-c", f"exec {script}"],
        env=environment_of(directory, {}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()

    assert "files copied" in line
    assert process.returncode == 0


def test_an_encrypted_backup_is_verified_with_its_key(directory: Path) -> None:
    assert "no problems found" in run("Encryption", directory)


def test_a_bucket_takes_backups(directory: Path) -> None:
    with running_service("my-bucket") as service:
        printed = run("Object storage", directory, **service)

    assert "restored" in printed


def commands() -> Iterator[str]:
    for line in re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        yield from re.findall(r"^engram .*", line, re.MULTILINE)


def test_the_guide_shows_every_command_of_backups() -> None:
    shown = " ".join(commands())

    assert all(f"engram {each}" in shown for each in ("backup list", "backup verify", "restore"))
