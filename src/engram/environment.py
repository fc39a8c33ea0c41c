"""The variables that must be known before settings are read.

A hook runs at every prompt, and reading all settings takes longer than everything else it does.
`engram.settings` is the only other module that reads the environment.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def find_home(source: Mapping[str, str] = os.environ) -> str:
    """Return the directory of the store that the environment names, or the default one."""
    given = source.get("ENGRAM_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    return default_home(source)


def default_home(source: Mapping[str, str] = os.environ) -> str:
    """Return the directory of the store of a user who names none."""
    base = source.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(base, "engram")


def are_hooks_on(source: Mapping[str, str] = os.environ) -> bool:
    """Return False if whoever started this process wants nothing kept and nothing recalled.

    With a server in the place of the local store, there is nothing here to do either.
    """
    return source.get("ENGRAM_HOOKS") not in {"0", "off"} and not source.get("ENGRAM_URL")


def inherited(home: str, source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a process that uses the same store from any directory."""
    return {**source, "ENGRAM_HOME": home}
