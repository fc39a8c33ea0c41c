"""Look for secrets in the tracked files, and for advisories on the locked dependencies.

python -m tools.audit             both; without a network the second says so and fails nothing
python -m tools.audit --offline   secrets alone
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.lock import Pinned, read_lock
from tools.secrets_scan import scan_files, tracked_files

ROOT = Path(__file__).parents[1]
LOCKS = ("requirements.lock", "requirements-dev.lock")
ADVISORIES = "https://api.osv.dev/v1/querybatch"
"""The open database that takes in the advisories of PyPI and GitHub."""

_BATCH = 500
"""Below what the service takes at once."""

_TIMEOUT_S = 20


class UnreachableError(Exception):
    """The database of advisories cannot be asked from here."""


def find_advisories(pinned: Sequence[Pinned], *, url: str = ADVISORIES) -> dict[str, list[str]]:
    """Return the ids of advisories by package and version.

    Raises:
        UnreachableError: nobody answers.
    """
    found: dict[str, list[str]] = {}
    for start in range(0, len(pinned), _BATCH):
        batch = pinned[start : start + _BATCH]
        answers = _ask(url, {"queries": [{"package": {"purl": each.purl}} for each in batch]})
        for each, answer in zip(batch, answers["results"], strict=True):
            if advisories := answer.get("vulns"):
                found[f"{each.name} {each.version}"] = [one["id"] for one in advisories]
    return found


def _ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 the address is ours
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 as above
            return json.load(answer)
    except (OSError, urllib.error.URLError) as exc:
        raise UnreachableError(str(exc)) from exc


def audit_secrets(root: Path = ROOT) -> int:
    """Say where secrets are; return how many."""
    findings = scan_files(root, tracked_files(root))
    for path, line, kind in findings:
        print(f"{path}:{line}: looks like a secret ({kind})")
    print(f"secrets: {len(findings)} found")
    return len(findings)


def audit_advisories(root: Path = ROOT, *, url: str = ADVISORIES) -> int:
    """Say which dependencies have advisories; return how many, none when nobody can be asked."""
    pinned = {each.purl: each for name in LOCKS for each in read_lock(root / name)}
    try:
        found = find_advisories(list(pinned.values()), url=url)
    except UnreachableError as exc:
        print(f"advisories: NOT CHECKED, the database cannot be reached ({exc})")
        return 0
    for package, ids in found.items():
        print(f"{package}: {', '.join(ids)}")
    print(f"advisories: {len(found)} of {len(pinned)} packages have some")
    return len(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Exit with 1 when something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--offline", action="store_true", help="ask nobody")
    parser.add_argument("--advisories", default=ADVISORIES, metavar="URL", help="whom to ask")
    chosen = parser.parse_args(arguments)
    found = audit_secrets()
    if not chosen.offline:
        found += audit_advisories(url=chosen.advisories)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
