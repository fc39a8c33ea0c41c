"""`engram trash`: list, restore, empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.cli.output import (
    counted,
    page_summary,
    print_line,
    print_notice,
    short_time,
    show_table,
)

if TYPE_CHECKING:
    from datetime import datetime

    from engram.model.trash import Restored, TrashEmptied, TrashPage


def print_trash(answer: TrashPage) -> None:
    """List what was deleted and can be restored, the last deleted first.

    Examples:
      engram trash list
      engram trash list --kind memory --project web
      engram trash list --json | jq -r '.entries[].id'
    """
    if answer.entries:
        show_table(
            ("ID", "TITLE", "PROJECT", "MESSAGES", "DELETED", "BY", "UNTIL"),
            (
                (
                    each.id,
                    each.title,
                    each.project,
                    f"{each.messages:,}",
                    short_time(each.deleted_at),
                    each.deleted_by,
                    short_time(each.restorable_until),
                )
                for each in answer.entries
            ),
        )
    shown = len(answer.entries)
    print_notice(page_summary(shown, answer.total, answer.next_offset, "deletion"))


def print_restored(answer: Restored) -> None:
    """Restore a conversation or memory from the trash, as it was.

    Examples:
      engram trash restore conv_…
      engram trash restore mem_… --json
    """
    print_line(f"restored {answer.id}")


def print_emptied(answer: TrashEmptied) -> None:
    """Remove everything in the trash for good, or one entry of it.

    Examples:
      engram trash empty
      engram trash empty conv_… --yes
    """
    freed = counted(answer.stored_bytes, "byte")
    print_line(f"removed {counted(answer.removed, 'deletion')} for good, {freed}")
    if answer.held:
        print_notice(f"{counted(answer.held, 'deletion')} left under a legal hold")


def tell_restorable(until: datetime | None, identifier: str | None) -> None:
    """Print how to undo a deletion, unless it is final."""
    if until is not None:
        print_notice(
            f"in the trash until {short_time(until)}; undo: engram trash restore {identifier}"
        )
