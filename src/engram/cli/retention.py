"""`engram retention` and `engram hold`: how long things are kept, and what nobody may delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.cli.output import counted, print_line, print_notice, short_time, show_table

if TYPE_CHECKING:
    from engram.api.retention import HoldsListed, RulesListed
    from engram.model.retention import LegalHold, RetentionReport, RetentionRule


def print_rules(answer: RulesListed) -> None:
    """List the rules of retention.

    Examples:
      engram retention list
      engram retention list --json | jq -r '.rules[].id'
    """
    if answer.rules:
        show_table(
            ("ID", "KEEP", "KIND", "PROJECT", "SOURCE", "SET"),
            (
                (
                    rule.id,
                    f"{rule.keep_days}d",
                    rule.kind or "all",
                    rule.project or "all",
                    rule.source or "all",
                    short_time(rule.created_at),
                )
                for rule in answer.rules
            ),
        )
    print_notice(counted(len(answer.rules), "rule"))


def print_rule(answer: RetentionRule) -> None:
    """Set how long something is kept since it last changed.

    What is older is removed for good in the background. Of several rules the most
    specific one counts. Try `engram retention run --dry-run` afterwards.

    Examples:
      engram retention set 90d --project scratch
      engram retention set 30d --kind conversation --source claude
      engram retention set 2y
    """
    print_line(f"{answer.id}: {_about(answer)} kept for {counted(answer.keep_days, 'day')}")


def print_removed_rule(answer: RetentionRule) -> None:
    """Remove a rule of retention.

    Examples:
      engram retention remove ret_…
    """
    print_line(f"removed the rule {answer.id}")


def print_report(answer: RetentionReport) -> None:
    """Apply the rules of retention now, or count what they would remove.

    Examples:
      engram retention run --dry-run
      engram retention run --json
    """
    counts = (
        (answer.conversations, "conversation"),
        (answer.messages, "message"),
        (answer.notes, "note"),
        (answer.documents, "document"),
    )
    gone = ", ".join(counted(count, noun) for count, noun in counts)
    print_line(f"{'would remove' if answer.dry_run else 'removed'} {gone}")
    if answer.held or answer.immutable:
        print_notice(f"left: {answer.held:,} under a legal hold, {answer.immutable:,} immutable")


def print_holds(answer: HoldsListed) -> None:
    """List the legal holds.

    Examples:
      engram hold list
    """
    if answer.holds:
        show_table(
            ("ID", "REASON", "ON", "PLACED", "BY"),
            (
                (
                    hold.id,
                    hold.reason,
                    _about(hold),
                    short_time(hold.created_at),
                    hold.created_by,
                )
                for hold in answer.holds
            ),
        )
    print_notice(counted(len(answer.holds), "legal hold"))


def print_hold(answer: LegalHold) -> None:
    """Place a legal hold: what it is on cannot be deleted until it is lifted.

    Examples:
      engram hold add "Smith v. Acme" --project billing
      engram hold add "Audit 2026" --id conv_…
      engram hold add "Everything stays"
    """
    print_line(answer.id)


def print_lifted(answer: LegalHold) -> None:
    """Lift a legal hold.

    Examples:
      engram hold lift hold_…
    """
    print_line(f"lifted {answer.id}")


def _about(selected: RetentionRule | LegalHold) -> str:
    """Return what a rule or hold is on, in words."""
    subject = getattr(selected, "subject", None)
    if subject is not None:
        return subject
    parts = [f"{selected.kind}s" if selected.kind else "everything"]
    parts += [f"of project {selected.project}"] if selected.project else []
    parts += [f"from {selected.source}"] if selected.source else []
    return " ".join(parts)
