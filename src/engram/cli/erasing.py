"""`engram erase`: erase for good, with counts first and a receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from engram.cli.invocation import Invocation
from engram.cli.operations import Given, call, request_options
from engram.cli.options import Yes, confirm
from engram.cli.output import print_line, print_notice, short_time, visible_line
from engram.errors import InvalidRequestError
from engram.model.erasure import ErasureCounts, ErasureRequest

if TYPE_CHECKING:
    from engram.api.account import StatusView
    from engram.model.access import AccountDeletion
    from engram.model.erasure import BackupNote, ErasureReceipt

Organization = Annotated[
    str | None,
    typer.Option("--organization", metavar="NAME", help="Everything, the organisation included."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count what would be erased.")]


@request_options(ErasureRequest)
def erase(
    invocation: Invocation,
    *,
    given: Given,
    organization: Organization = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Erase a conversation, a project, a subject or the organisation; nothing brings it back.

    Shows the counts and asks first. It is gone from every table, index and cache, and from the
    raw files; the receipt names the backups that still hold it. Importing it again adds nothing.

    Examples:
      engram erase --conversation conv_…
      engram erase --project shop --dry-run
      engram erase --subject name=Ada --yes --json
      engram erase --subject metadata.customer=42
    """
    if organization is not None:
        if given:
            raise InvalidRequestError("--organization cannot be combined with other options")
        _erase_organization(invocation, organization, dry_run=dry_run, yes=yes)
        return
    counts: ErasureCounts = call(invocation, "count_erasure", given)
    if dry_run:
        invocation.show(counts, lambda: print_line(f"would erase {_listed(counts.removed)}"))
        return
    confirm(f"Erase {_listed(counts.removed)} for good?", yes=yes)
    receipt: ErasureReceipt = call(invocation, "erase", given)
    invocation.show(receipt, lambda: _print_receipt(receipt))


def _erase_organization(invocation: Invocation, name: str, *, dry_run: bool, yes: bool) -> None:
    status: StatusView = call(invocation, "status", {})
    kinds = ("conversations", "messages", "memories", "documents")
    counts = ErasureCounts(removed={kind: getattr(status, kind) for kind in kinds})
    if dry_run:
        invocation.show(counts, lambda: print_line(f"would erase {_listed(counts.removed)}"))
        return
    confirm(f"Erase {name}, its keys and {_listed(counts.removed)} for good?", yes=yes)
    answer: AccountDeletion = call(invocation, "delete_account", {"organization": name})
    invocation.show(answer, lambda: _print_deletion(answer))


def _print_deletion(answer: AccountDeletion) -> None:
    print_line(f"erased {_listed(answer.removed)}")
    print_notice(f"receipt {answer.receipt}")
    _print_holders(answer.backups, answer.still_held)


def _print_receipt(receipt: ErasureReceipt) -> None:
    print_line(f"erased {_listed(receipt.removed)}")
    if receipt.state == "finished":
        print_line(f"receipt {receipt.id}; written anew: {', '.join(receipt.files) or 'no file'}")
    else:
        print_line(f"receipt {receipt.id}; invisible, and being removed in the background")
    _print_holders(receipt.backups, receipt.still_held)


def _print_holders(backups: tuple[BackupNote, ...], held: tuple[str, ...]) -> None:
    for each in backups:
        until = "kept" if each.expires_at is None else f"until {short_time(each.expires_at)}"
        print_line(f"still in the backup {each.name}, {until}")
    if not backups:
        print_notice("this store knows of no backup that holds it")
    for text in held:
        print_notice(visible_line(text))


def _listed(counts: Mapping[str, int]) -> str:
    """Return counts as one text."""
    named = (
        f"{number:,} {kind if number != 1 else kind.replace('ies', 'ys').removesuffix('s')}"
        for kind, number in counts.items()
    )
    return ", ".join(named) or "nothing"
