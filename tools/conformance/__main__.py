"""Run the MCP conformance suite against a fresh server and compare with the expected failures.

    python -m tools.conformance [--verbose]

A failure that is not in `expected.toml`, and one there that no longer fails, both end it with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from tools.conformance.proxy import authorizing_proxy
from tools.conformance.suite import Check, install_suite, run_suite
from tools.server import running_server

VERSIONS = ("2025-11-25", "2026-07-28")
EXPECTED = Path(__file__).with_name("expected.toml")


def load_expected(version: str) -> list[str]:
    """Return the patterns of the checks that are expected to fail."""
    groups = tomllib.loads(EXPECTED.read_text())["group"]
    return [pattern for group in groups for pattern in group.get(version, ())]


def compare(checks: list[Check], expected: list[str], *, verbose: bool) -> bool:
    """Print what differs from the expectation; return whether nothing does."""
    failed = [check for check in checks if check.status == "FAILURE"]
    unexpected = [check for check in failed if not _is_any(check, expected)]
    repaired = [line for line in expected if not any(_is_any(check, [line]) for check in failed)]
    passed = sum(check.status == "SUCCESS" for check in checks)
    print(f"  {passed} passed, {len(failed) - len(unexpected)} failed as expected")
    if verbose:
        for check in checks:
            print(f"    {check.status:8} {check.name}  {check.message[:160]}")
    for check in unexpected:
        print(f"  FAILED: {check.name}: {check.message}")
    for line in repaired:
        print(f"  FAILS NO MORE, take it out of {EXPECTED.name}: {line}")
    return not unexpected and not repaired


def _is_any(check: Check, patterns: list[str]) -> bool:
    return any(fnmatchcase(check.name, pattern) for pattern in patterns)


async def check_version(version: str, *, port: int, token: str, verbose: bool) -> bool:
    """Run one protocol version's requirements; return whether all is as expected."""
    print(f"MCP {version}")
    async with authorizing_proxy(port=port, token=token) as proxy_port:
        url = f"http://127.0.0.1:{proxy_port}/mcp"
        checks = await asyncio.to_thread(run_suite, url, version=version)
    return compare(checks, load_expected(version), verbose=verbose)


async def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print every verdict")
    arguments = parser.parse_args()
    install_suite()
    with running_server() as server:
        token, port = server.create_organization("conformance"), urlsplit(server.url).port
        assert port is not None
        verdicts = [
            await check_version(version, port=port, token=token, verbose=arguments.verbose)
            for version in VERSIONS
        ]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
