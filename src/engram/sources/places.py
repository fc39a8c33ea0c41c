"""Where programs keep their files on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The user's directories, as the platform and the environment name them."""

    home: Path
    platform: str = "linux"
    """As `sys.platform` says it."""
    variables: Mapping[str, str]
    """The environment, in which programs are told to keep their files elsewhere."""

    def variable(self, name: str) -> Path | None:
        """Return the path in an environment variable, None if it is not set."""
        value = self.variables.get(name)
        return Path(value).expanduser() if value else None

    def named(self, name: str, *default: str) -> Path:
        """Return the path in a variable, or that below the home directory."""
        return self.variable(name) or self.home.joinpath(*default)

    @property
    def data(self) -> Path:
        """Return where programs keep their data: XDG's directory, or Windows' own."""
        if self.platform == "win32":
            return self.named("LOCALAPPDATA", "AppData", "Local")
        return self.named("XDG_DATA_HOME", ".local", "share")

    def application(self, name: str) -> Path:
        """Return the directory of a desktop application."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support" / name
        if self.platform == "win32":
            return self.named("APPDATA", "AppData", "Roaming") / name
        return self.named("XDG_CONFIG_HOME", ".config") / name

    def extension(self, name: str) -> tuple[Path, ...]:
        """Return where an extension of Visual Studio Code and its relatives keeps its files."""
        storage = (self.application(editor) / "User" / "globalStorage" for editor in _EDITORS)
        return tuple(directory / name for directory in storage)
