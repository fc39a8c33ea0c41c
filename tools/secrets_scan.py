"""Find secrets in text by the forms that issuers give them; works without a network.

A value that is made up for a test says so: its line has the words `fake secret` in a comment.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MARK = "fake secret"
_BYTES_MAX = 5_000_000
"""Larger files are data."""

_FORMS = {
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----",
    "Engram key": r"\bengram_sk_live_[A-Za-z0-9_-]{32}(?![A-Za-z0-9_-])",
    "AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,90})",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,60}",
    "Slack token": r"\bxox[baprs]-[0-9A-Za-z-]{10,100}",
    "model provider key": r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,200}",
    "payment key": r"\b[rs]k_live_[A-Za-z0-9]{20,100}",
    "Google key": r"\bAIza[0-9A-Za-z_-]{35}",
    "package index token": r"\b(?:pypi-AgEI[A-Za-z0-9_-]{40,200}|npm_[A-Za-z0-9]{36})",
    "model hub token": r"\bhf_[A-Za-z0-9]{30,60}",
    "JSON web token": r"\beyJ[A-Za-z0-9_-]{10,500}\.eyJ[A-Za-z0-9_-]{5,2000}\.[A-Za-z0-9_-]{5,500}",
    "assigned secret": (
        r"(?i:passw(?:or)?d|token|secret|api_?key)[\"']?\s{0,4}[:=]\s{0,4}"
        r"[\"'](?=[^\"']{0,80}[0-9])(?=[^\"']{0,80}[A-Z])[A-Za-z0-9+/_=-]{32,200}[\"']"
    ),
}
_ANY = re.compile(
    "|".join(f"(?P<form_{number}>{form})" for number, form in enumerate(_FORMS.values()))
)
_NAMES = tuple(_FORMS)


class Finding(NamedTuple):
    """Where something looks like a secret; what it is, is not repeated."""

    path: str
    line: int
    kind: str


def find_secrets(path: str, text: str) -> Iterator[Finding]:
    """Yield each line that holds what looks like a secret and is not marked as made up."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := _ANY.search(line)) and MARK not in line:
            form = next(name for name, value in found.groupdict().items() if value is not None)
            yield Finding(path, number, _NAMES[int(form.removeprefix("form_"))])


def scan_files(root: Path, names: Iterable[str]) -> list[Finding]:
    """Return what is found in text files below `root`."""
    findings = list[Finding]()
    for name in names:
        path = root / name
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _BYTES_MAX:
            continue
        content = path.read_bytes()
        if b"\0" not in content[:8_192]:
            findings += find_secrets(name, content.decode(errors="replace"))
    return findings


def tracked_files(root: Path) -> list[str]:
    """Return the files that git tracks; of a copy without its history, every file of the sources."""
    asked = subprocess.run(
        ["git", "-C", root, "ls-files", "-z"],
        capture_output=True,
        check=False,
        text=True,
    )
    if asked.returncode == 0:
        return [name for name in asked.stdout.split("\0") if name]
    folders = ("src", "tests", "docs", "docs_src", "tools", "bench", "changes")
    found = (path for folder in folders for path in (root / folder).rglob("*"))
    return [str(path.relative_to(root)) for path in found if path.is_file()]
