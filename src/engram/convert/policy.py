"""What a confined process may see and use, as it is told to that process."""

from __future__ import annotations

import json
from typing import Any, Literal, NamedTuple, TypeAlias

Way: TypeAlias = Literal["bubblewrap", "namespaces", "landlock", "bounds"]
"""How a process is kept from files that are not its business; `bounds` do not keep it from any."""


class Policy(NamedTuple):
    """All that a confined process may have."""

    way: Way
    readable: tuple[str, ...]
    """Files and directories of libraries."""

    source: str
    """The one file to read."""

    target: str
    """The one file to write."""

    memory_bytes: int
    cpu_s: int
    file_bytes: int
    open_files: int

    def dump(self) -> str:
        """Return it as one argument of a command."""
        return json.dumps(self._asdict())

    @classmethod
    def load(cls, text: str) -> Policy:
        """Return what `dump` wrote."""
        fields: dict[str, Any] = json.loads(text)
        fields["readable"] = tuple(fields["readable"])
        return cls(**fields)
