"""Choose what a new session should know.

Critical memories come first. Then the other groups take turns: important memories, open work, decisions,
preferences, and what was stored last in each current project. Within a group importance decides, then time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest

from engram import limits
from engram.clock import from_microseconds
from engram.model.fields import DEFAULT_PROJECT
from engram.model.ids import ConversationKey, MessageKey
from engram.model.recall import OVERVIEW_REASONS, CurrentProject, OverviewReason
from engram.model.value import Value
from engram.storage.search.overview import OverviewCandidate


class ChosenOverview(Value):
    """The entries of an overview, best first, and the projects that are current."""

    candidates: tuple[OverviewCandidate, ...]
    projects: tuple[CurrentProject, ...]

    @property
    def messages(self) -> list[MessageKey]:
        """Return the messages to read."""
        return [each.key for each in self.candidates]

    @property
    def conversations(self) -> list[ConversationKey]:
        """Return the conversations and records to read."""
        return [each.conversation for each in self.candidates]

    @property
    def whole_tokens_max(self) -> None:
        """Return no bound: a context cuts long texts itself."""


def choose_overview(
    candidates: Sequence[OverviewCandidate],
    *,
    limit: int,
    asked: frozenset[OverviewReason] = frozenset(),
) -> ChosenOverview:
    """Choose entries from all groups in turn.

    Args:
        asked: the groups that take turns before the others.
    """
    groups = _groups(candidates)
    critical = groups.pop("critical")
    # Half of the room, so that many critical memories do not hide everything else.
    first = critical[: (limit + 1) // 2]
    before = _turns(groups[reason] for reason in groups if reason in asked)
    after = _turns(groups[reason] for reason in groups if reason not in asked)
    ordered = chain(first, before, after, critical[len(first) :])
    chosen = tuple(dict.fromkeys(ordered))[:limit]
    return ChosenOverview(candidates=chosen, projects=_current_projects(candidates))


def _groups(
    candidates: Iterable[OverviewCandidate],
) -> dict[OverviewReason, list[OverviewCandidate]]:
    """Return each candidate once, in the first group that has it, each group in its order."""
    groups: dict[OverviewReason, list[OverviewCandidate]] = {name: [] for name in OVERVIEW_REASONS}
    seen: set[ConversationKey] = set()
    for each in sorted(candidates, key=lambda each: OVERVIEW_REASONS.index(each.reason)):
        if each.conversation not in seen:
            seen.add(each.conversation)
            groups[each.reason].append(each)
    for group in groups.values():
        group.sort(key=lambda each: (each.importance, -each.at, -each.conversation))
    groups["latest"] = _by_project(groups["latest"])
    return groups


def _by_project(latest: list[OverviewCandidate]) -> list[OverviewCandidate]:
    """Return the newest of each project before the others, the newest first."""
    newest = sorted(latest, key=lambda each: (-each.at, -each.conversation))
    first: dict[str, OverviewCandidate] = {}
    for each in newest:
        first.setdefault(each.project, each)
    return [*first.values(), *(each for each in newest if first[each.project] is not each)]


def _turns(groups: Iterable[Sequence[OverviewCandidate]]) -> Iterator[OverviewCandidate]:
    """Yield the first of each group, then the second of each, and so on."""
    for turn in zip_longest(*groups):
        yield from (each for each in turn if each is not None)


def _current_projects(candidates: Iterable[OverviewCandidate]) -> tuple[CurrentProject, ...]:
    """Return the projects with the latest activity; none if all is in the default one."""
    active: dict[str, int] = {}
    for each in candidates:
        if each.reason == "latest":
            active[each.project] = max(each.at, active.get(each.project, 0))
    if active.keys() <= {DEFAULT_PROJECT}:
        return ()
    names = sorted(active, key=lambda name: (-active[name], name))[: limits.OVERVIEW_PROJECTS]
    return tuple(
        CurrentProject(project=name, active_at=from_microseconds(active[name])) for name in names
    )
