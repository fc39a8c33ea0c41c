"""What decides where clients keep their files: the system, its variables, and the user's directory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from engram.model.value import Value

Platform = Literal["linux", "darwin", "win32"]


class Machine(Value):
    """The computer whose clients are connected, as this process sees it."""

    platform: Platform
    home: Path
    directory: Path
    """The working directory, where `--scope project` applies."""
    environment: Mapping[str, str]

    def variable(self, name: str) -> Path | None:
        """Return the directory or file that a variable names, if it is set."""
        given = self.environment.get(name)
        return self.directory / Path(given).expanduser() if given else None

    @property
    def xdg_config(self) -> Path:
        """Configuration of programs that follow the XDG rules on every Unix."""
        return self.variable("XDG_CONFIG_HOME") or self.home / ".config"

    @property
    def app_data(self) -> Path:
        """Configuration of desktop applications."""
        match self.platform:
            case "darwin":
                return self.home / "Library" / "Application Support"
            case "win32":
                return self.variable("APPDATA") or self.home / "AppData" / "Roaming"
            case "linux":
                return self.xdg_config

    def finds(self, program: str) -> bool:
        """Return True if a program is on the path."""
        return shutil.which(program, path=self.environment.get("PATH", "")) is not None
