"""Read what a lock file pins: names, versions, hashes, and what asked for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?:[ ]*;[ ]*(?P<marker>[^\\\n]+?))?[ ]*\\\n"
    r"(?P<rest>(?:[ ]+\S.*\n)+)",
    re.MULTILINE,
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VIA = re.compile(r"^ +#(?: +via)? +([\w.-]+)(?: \(pyproject\.toml\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pinned:
    """One package of a lock file."""

    name: str
    version: str
    marker: str | None
    """When it is installed; None for always."""
    sha256: tuple[str, ...]
    """Of each file that may be installed."""
    via: tuple[str, ...]
    """The packages that need it."""

    @property
    def purl(self) -> str:
        """Its name among the packages of all languages."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> list[Pinned]:
    """Return every package of a lock file, in its order.

    Raises:
        ValueError: a pin has no hash, or is not understood.
    """
    text = path.read_text(encoding="utf-8")
    pinned = [_pinned(found) for found in _BLOCK.finditer(text)]
    pins = re.findall(r"^[^\s#]", text, re.MULTILINE)
    if len(pinned) != len(pins) or not all(each.sha256 for each in pinned):
        raise ValueError(f"{path.name} has {len(pins)} pins, {len(pinned)} of which are understood")
    return pinned


def _pinned(found: re.Match[str]) -> Pinned:
    return Pinned(
        name=found["name"],
        version=found["version"],
        marker=found["marker"],
        sha256=tuple(_HASH.findall(found["rest"])),
        via=tuple(_VIA.findall(found["rest"])),
    )
