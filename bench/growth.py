"""The memory that a process takes for a piece of work, as Linux counts it."""

from __future__ import annotations

import re
from pathlib import Path


class Growth:
    """The peak of a process from now on, above what it has now."""

    def __init__(self, pid: int) -> None:
        self._process = Path("/proc", str(pid))
        self._before_mb = self._status_mb("VmRSS")
        # Linux forgets the peak so far.
        (self._process / "clear_refs").write_text("5")

    def peak_mb(self) -> float:
        """Return how much more memory it had at its peak."""
        return max(0.0, self._status_mb("VmHWM") - self._before_mb)

    def _status_mb(self, name: str) -> float:
        status = (self._process / "status").read_text()
        found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024 / 1_000_000
