"""What of a session may be kept, and which project it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from engram import limits
from engram.model.fields import DEFAULT_PROJECT
from engram.model.project import ProjectNames
from engram.privacy.cleaning import clean_text
from engram.privacy.consent import is_remembered
from engram.privacy.projects import place_of
from engram.sources.texts import label_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The settings that imports and captures obey."""

    home: Path
    """The user's directory."""
    redacts: bool = True
    only: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    names: ProjectNames = field(default_factory=ProjectNames)
    """The aliases and exclusions that the store has."""
    _projects: dict[str, str | None] = field(default_factory=dict[str, str | None], repr=False)

    def clean(self, text: str) -> str:
        """Return a text without what must not be stored; it may be empty."""
        return clean_text(text, redacts=self.redacts)

    def with_names(self, names: ProjectNames) -> Policy:
        """Return the same policy with the aliases and exclusions of a store."""
        return replace(self, names=names, _projects={})

    def project_of(self, directory: str) -> str | None:
        """Return the project of a directory, None if memory is off there."""
        if directory not in self._projects:
            self._projects[directory] = self._resolve(directory)
        return self._projects[directory]

    def _resolve(self, directory: str) -> str | None:
        path = Path(directory)
        usable = label_of(directory, characters_max=limits.DIRECTORY_CHARACTERS_MAX)
        if usable is None or not path.is_absolute():
            # A path of another system, or none: it cannot be among the chosen ones.
            named = label_of(directory, characters_max=limits.PROJECT_CHARACTERS_MAX)
            return None if self.only else self.names.resolve(named or DEFAULT_PROJECT)
        place = place_of(path, home=self.home, aliases=self.aliases)
        kept = is_remembered(path, place, home=self.home, only=self.only, never=self.never)
        return self.names.resolve(place.project) if kept else None
