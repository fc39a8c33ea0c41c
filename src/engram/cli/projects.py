"""`engram projects`, `engram memories change` and `engram undo`: names of projects, many memories at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.cli.output import counted, print_line, print_notice, short_time, show_table

if TYPE_CHECKING:
    from engram.api.projects import RulesOfProjects
    from engram.model.changes import ManyChanged, Undone
    from engram.model.project import ProjectMerged, ProjectRule


def print_rules(answer: RulesOfProjects) -> None:
    """List the aliases and exclusions of projects.

    Examples:
      engram projects rules
      engram projects rules --json | jq -r '.rules[].project'
    """
    if answer.rules:
        show_table(
            ("PROJECT", "KEPT IN", "SINCE", "BY"),
            (
                (
                    rule.project,
                    rule.same_as or "(excluded)",
                    short_time(rule.created_at),
                    rule.created_by,
                )
                for rule in answer.rules
            ),
        )
    print_notice(counted(len(answer.rules), "rule"))


def print_alias(answer: ProjectRule) -> None:
    """Store what is captured or imported for one project under another.

    What is stored already stays where it is: `engram projects merge` moves it too.

    Examples:
      engram projects alias ~/old/shop github.com/acme/shop
    """
    print_line(f"{answer.project} is kept in {answer.same_as} from now on")


def print_excluded(answer: ProjectRule) -> None:
    """Capture, import and remind nothing of a project from now on.

    What is stored already stays. `engram projects reset` includes it again.

    Examples:
      engram projects exclude ~/secret
    """
    print_line(f"nothing of {answer.project} is captured or imported from now on")


def print_reset(answer: ProjectRule) -> None:
    """Remove the alias or the exclusion of a project.

    Examples:
      engram projects reset ~/secret
    """
    print_line(f"{answer.project} is a project of its own again")


def print_merged(answer: ProjectMerged) -> None:
    """Move everything of a project to another one, and make its name an alias of it.

    Examples:
      engram projects merge ~/old/shop github.com/acme/shop
    """
    counts = (
        (answer.conversations, "conversation"),
        (answer.memories, "memory"),
        (answer.episodes, "episode"),
    )
    moved = ", ".join(counted(count, noun) for count, noun in counts)
    print_line(f"moved {moved} from {answer.project} to {answer.into}")
    if answer.held:
        print_notice(f"{answer.held:,} stay: they are under a legal hold")
    if answer.truncated:
        print_notice("there is more: run this again to move the rest")
    _print_undo(answer.change_id)


def print_changed(answer: ManyChanged) -> None:
    """Change many memories at once: their importance, or move them to the trash.

    Examples:
      engram memories change importance --importance 4 --project attic --dry-run
      engram memories change trash --tag scratch
    """
    said = "would change" if answer.dry_run else "changed"
    print_line(f"{said} {answer.changed:,} of {answer.total:,} that match")
    if answer.refused:
        print_notice(f"{answer.refused:,} could not be changed: immutable, held or gone")
    if answer.change_id is not None:
        _print_undo(answer.change_id)


def print_undone(answer: Undone) -> None:
    """Undo a merge of projects or a change of many memories.

    Exactly what that act has changed is taken back; what was changed otherwise since stays.

    Examples:
      engram undo chg_…
    """
    print_line(f"{answer.restored:,} are as before")
    if answer.refused:
        print_notice(f"{answer.refused:,} stay as they are: they were changed since, or are gone")


def _print_undo(change_id: str) -> None:
    print_notice(f"undo with: engram undo {change_id}")
