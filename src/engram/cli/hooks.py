"""`engram hook`: events of coding agents, and the log of what the agents were told.

An event does not come here: `engram.cli` hands it to `engram.hooks.entry` before anything else is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.cli.invocation import Invocation
from engram.cli.options import shared_options
from engram.cli.output import counted, print_line, short_time, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.reminder import Delivery

LOG = "log"

Event = Annotated[
    str,
    typer.Argument(
        metavar="EVENT",
        help="start, prompt, turn, compact or end, or the client's own name of it; log.",
    ),
]
ClientName = Annotated[
    str | None,
    typer.Option(
        "--client",
        metavar="NAME",
        help="claude, codex, gemini or cursor. [default: by what it sends]",
    ),
]
Lines = Annotated[
    int,
    typer.Option("--lines", "-n", min=1, max=limits.DELIVERIES_KEPT, help="Rows of the log."),
]


@shared_options
def hook(
    invocation: Invocation, *, event: Event, client: ClientName = None, lines: Lines = 20
) -> None:
    """Answer an event of a coding agent, or show what agents were told.

    Examples:
      engram hook prompt < payload.json
      engram hook Stop --client codex
      engram hook log -n 50

    `engram connect` enters these commands in the settings of clients. The
    payload is JSON on stdin, the answer JSON on stdout, the status always 0: a
    turn is noted in a spool, a prompt answered within 150 ms or with nothing.
    """
    if event == LOG:
        _show_log(invocation, lines)
        return
    from engram.hooks.entry import run_hook

    run_hook(
        [
            event,
            *(("--client", client) if client else ()),
            "--home",
            str(invocation.settings().home),
        ]
    )


def _show_log(invocation: Invocation, lines: int) -> None:
    told = invocation.run_local(lambda service, me: service.search.list_deliveries(me, limit=lines))
    invocation.show({"deliveries": told}, lambda: _print_log(told))


def _print_log(told: Sequence[Delivery]) -> None:
    if not told:
        print_line("no agent was told anything yet")
        return
    show_table(
        ["WHEN", "CLIENT", "EVENT", "SESSION", "TOKENS", "SHOWN"],
        [
            [
                short_time(each.at),
                each.client,
                each.event,
                each.session,
                f"{each.tokens:,}",
                " ".join(each.shown),
            ]
            for each in told
        ],
    )
    print_line(counted(len(told), "reminder"))
