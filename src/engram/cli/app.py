"""The command tree: groups, commands and the printers of operations."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer._click.exceptions import ClickException
from typer.core import TyperCommand, TyperGroup

from engram.api.operation import AnyOperation
from engram.api.table import OPERATIONS
from engram.cli import (
    access,
    backup,
    clients,
    conversations,
    databases,
    documents,
    engine,
    erasing,
    evaluate,
    exports,
    homes,
    hooks,
    maintenance,
    memories,
    models,
    opening,
    projects,
    retention,
    search,
    serve,
    sources,
    trash,
    upgrading,
)
from engram.cli.invocation import FAILED, print_failure, wants_json
from engram.cli.operations import Show, operation_command
from engram.cli.output import print_line, print_notice
from engram.cli.terminal import columns, stderr

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter, Parameter
    from typer.core import TyperOption

HELP = """Memory for AI agents: stored verbatim, searchable by words and meaning.

Examples:
  engram serve                          start the server; shows a key once
  engram connect claude-code            memory for Claude Code, no server
  engram conversations append "The demo is on Friday"
  engram search "when is the demo?"

The store is one directory: --home, ENGRAM_HOME, or the XDG data directory.
With ENGRAM_URL and ENGRAM_API_KEY commands use the store of that server.
With --json, which every command accepts, stdout contains only the answer, and
an error is one JSON object on stderr.
Exit status: 0 success, 1 failure or problems found, 2 usage error.
"""

HELP_COLUMNS_MIN, HELP_COLUMNS_MAX = 50, 80
"""Help is wrapped for a terminal, but not into lines that are hard to read."""

Command = Callable[..., None]
Words = tuple[str, ...]

GROUPS: Mapping[str, str] = {
    "conversations": "Store, read and delete conversations.",
    "notes": "Store, list and remove notes.",
    "memories": "Store, recall and correct typed memories.",
    "documents": "Store files as documents, byte for byte, and retrieve them.",
    "trash": "Restore what was deleted, or remove it for good.",
    "projects": "Name, merge and exclude projects.",
    "retention": "Set how long things are kept.",
    "hold": "Place and lift legal holds, which forbid deletion.",
    "orgs": "Manage the organisations of this store, as its operator.",
    "keys": "Manage API keys, as the operator of this store.",
    "engine": "Look after the process that local clients share.",
    "models": "Download and verify the model files for semantic search.",
    "backup": "Back up a store in use (`engram backup DIR`), and restore it.",
    "migrate": "Move the store between a directory and a PostgreSQL database.",
    "postgres": "Set up a PostgreSQL database, or spread it over a Citus cluster.",
    "homes": "Manage the databases that organisations are at.",
}
"""Help texts of the command groups."""

DAILY: Sequence[Words] = (
    ("search",),
    ("notes", "add"),
    ("conversations", "append"),
    ("status",),
    ("connect",),
)
"""Commands that a person uses every day; the help lists them before all others."""

SERVERS: Mapping[Words, Command] = {("serve",): serve.serve, ("mcp",): serve.mcp}

COMMANDS: Mapping[Words, Command] = {
    ("connect",): clients.connect,
    ("disconnect",): clients.disconnect,
    ("open",): opening.open_page,
    ("status",): maintenance.status,
    ("doctor",): maintenance.doctor,
    ("index",): maintenance.index,
    ("erase",): erasing.erase,
    ("reindex",): maintenance.reindex,
    ("reembed",): maintenance.reembed,
    ("export",): exports.export,
    ("upgrade",): upgrading.upgrade,
    ("import",): sources.import_source,
    ("sources",): sources.list_sources,
    ("hook",): hooks.hook,
    ("eval",): evaluate.evaluate,
    ("limits",): maintenance.limits,
    ("version",): maintenance.version,
    ("conversations", "append"): conversations.append,
    ("notes", "add"): memories.add_notes,
    ("memories", "export"): memories.export_memories,
    ("memories", "import"): memories.import_memories,
    ("documents", "add"): documents.add_documents,
    ("documents", "get"): documents.get_document,
    ("orgs", "delete"): access.delete_organization,
    ("orgs", "move"): homes.move,
    ("keys", "list"): access.list_keys,
    ("keys", "create"): access.create_key,
    ("keys", "rotate"): access.rotate_key,
    ("keys", "revoke"): access.revoke_key,
    ("keys", "restore"): access.restore_key,
    ("keys", "operator-token"): access.make_operator_token,
    ("engine", "status"): engine.status,
    ("engine", "stop"): engine.stop,
    ("engine", "logs"): engine.logs,
    ("engine", "run"): engine.run,
    ("models", "list"): models.list_models,
    ("models", "pull"): models.pull_models,
    ("models", "verify"): models.verify_models,
    ("models", "path"): models.show_path,
    ("backup", "create"): backup.create,
    ("backup", "list"): backup.list_backups,
    ("backup", "verify"): backup.verify,
    ("backup", "restore"): backup.restore,
    ("restore",): backup.restore,
    ("migrate", "sqlite-to-postgres"): databases.sqlite_to_postgres,
    ("migrate", "postgres-to-sqlite"): databases.postgres_to_sqlite,
    ("postgres", "setup"): databases.setup,
    ("postgres", "distribute"): databases.distribute,
    ("homes", "add"): homes.add,
    ("homes", "list"): homes.list_homes,
    ("homes", "remove"): homes.remove,
}
"""Commands that are more than one operation."""

DEFAULTS: Mapping[str, str] = {"backup": "create"}
"""The command of a group that is meant where no command of the group is named."""

PRINTERS: Mapping[str, Show] = {
    "search": search.print_found,
    "list_conversations": conversations.print_conversations,
    "get_conversation": conversations.print_conversation,
    "create_conversation": conversations.print_created,
    "delete_conversation": conversations.print_deleted,
    "edit_conversation": conversations.print_edited,
    "list_entries": memories.print_notes,
    "fetch_context": memories.print_context,
    "remove_entry": memories.print_removed_note,
    "memory_store": memories.print_stored,
    "memory_recall": memories.print_recalled,
    "memory_fetch": memories.print_memory,
    "memory_list": memories.print_memories,
    "memory_correct": memories.print_corrected,
    "memory_forget": memories.print_forgotten,
    "memory_restore": memories.print_restored,
    "memory_change": projects.print_changed,
    "undo_change": projects.print_undone,
    "project_rules": projects.print_rules,
    "project_alias": projects.print_alias,
    "project_exclude": projects.print_excluded,
    "project_reset": projects.print_reset,
    "project_merge": projects.print_merged,
    "memory_connect": memories.print_connected,
    "memory_history": memories.print_history,
    "memory_purge": memories.print_removed_memory,
    "trash_list": trash.print_trash,
    "trash_restore": trash.print_restored,
    "trash_empty": trash.print_emptied,
    "retention_list": retention.print_rules,
    "retention_set": retention.print_rule,
    "retention_remove": retention.print_removed_rule,
    "retention_run": retention.print_report,
    "hold_list": retention.print_holds,
    "hold_add": retention.print_hold,
    "hold_lift": retention.print_lifted,
    "list_documents": documents.print_documents,
    "document_status": documents.print_document,
    "remove_document": documents.print_removed_document,
    "list_organizations": access.print_organizations,
    "create_organization": access.print_created_organization,
    "change_organization": access.print_changed_organization,
}
"""Printers of the answers of operations; their docstrings are the commands' help texts."""


def build_app(
    operations: Iterable[AnyOperation] = OPERATIONS, *, only: Words | None = None
) -> typer.Typer:
    """Return the command line with all its commands, or with a single one."""
    app = _group(HELP, kind=_Root)
    app.callback()(_root)
    groups = {
        name: _group(help_text)
        for name, help_text in GROUPS.items()
        if only is None or name == only[0]
    }
    commands = _commands(operations) if only is None else {only: _commands(operations)[only]}
    for words, make in commands.items():
        command = make()
        group = app if len(words) == 1 else groups[words[0]]
        help_text, examples = split_examples(inspect.getdoc(command) or "")
        group.command(words[-1], cls=_Command, help=help_text, epilog=examples)(command)
    for name, group in groups.items():
        app.add_typer(group, name=name)
    return app


def _commands(operations: Iterable[AnyOperation]) -> dict[Words, Callable[[], Command]]:
    """Return what makes each command: making them all takes a third of the start."""
    made = {
        operation.command.words: partial(operation_command, operation, PRINTERS.get(operation.name))
        for operation in operations
        if operation.command is not None
    }
    written = {words: partial(_itself, command) for words, command in COMMANDS.items()}
    servers = {words: partial(_itself, command) for words, command in SERVERS.items()}
    return {**servers, **made, **written}


def _itself(command: Command) -> Command:
    return command


def complete(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments with the command that they leave out: `backup DIR` is `backup create DIR`."""
    group, *rest = arguments or [""]
    named = {words[1] for words in COMMANDS if words[0] == group and len(words) == 2}
    if group not in DEFAULTS or not rest or rest[0] in named | {"--help", "-h"}:
        return arguments
    return [group, DEFAULTS[group], *rest]


def named_in(arguments: Sequence[str]) -> Words | None:
    """Return the command that the arguments begin with, or None if they begin with none."""
    known = _commands(OPERATIONS)
    return next((words for n in (1, 2) if (words := tuple(arguments[:n])) in known), None)


def run_command(arguments: Sequence[str]) -> int:
    """Run the command named by `arguments` and return its exit status."""
    arguments = complete(arguments)
    command = _built(named_in(arguments))
    try:
        # Calling the app itself would install an exception hook that formats tracebacks.
        status = command.main(
            args=list(arguments),
            prog_name="engram",
            standalone_mode=False,
            terminal_width=max(min(columns(), HELP_COLUMNS_MAX) - 2, HELP_COLUMNS_MIN),
        )
    except typer.Abort:
        print_notice("Aborted!")
        return FAILED
    except ClickException as exc:
        _show_usage_error(exc, as_json=wants_json(arguments))
        return exc.exit_code
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else FAILED
    return status or 0


def _show_usage_error(error: ClickException, *, as_json: bool) -> None:
    if as_json:
        print_failure("usage", error.format_message(), {})
    else:
        error.show(file=stderr())


@cache
def _built(only: Words | None) -> Any:
    """Return the command line; the engine runs the same commands again and again."""
    return typer.main.get_command(build_app(only=only))


def split_examples(text: str) -> tuple[str, str | None]:
    """Split a docstring into the help text and the examples, an epilog that click does not rewrap."""
    help_text, heading, examples = text.partition("\n\nExamples:\n")
    epilog = f"Examples:\n{examples.rstrip()}".replace("\n\n", "\n\n\b\n")
    return help_text, f"\b\n{epilog}" if heading else None


def _show_help(context: Context, _: Parameter, value: bool) -> None:  # noqa: FBT001 a flag's callback
    if value and not context.resilient_parsing:
        print_line(context.get_help())
        context.exit()


_MAKING_HELP = threading.Lock()
"""Held while the help option of a command is made, which for a moment is one of its parameters."""


class _Command(TyperCommand):
    """A command whose help goes where its output goes."""

    def get_help_option(self, ctx: Context) -> TyperOption | None:
        with _MAKING_HELP:
            return _writing_help(super().get_help_option(ctx))


class _Group(TyperGroup):
    """A group whose help goes where its output goes."""

    def get_help_option(self, ctx: Context) -> TyperOption | None:
        with _MAKING_HELP:
            return _writing_help(super().get_help_option(ctx))


class _Root(_Group):
    """The whole command line; its help begins with what is used every day."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        daily = [(" ".join(words), found) for words in DAILY if (found := self._find(words))]
        limit = formatter.width - 6 - max(len(name) for name, _ in daily)
        with formatter.section("Every day"):
            formatter.write_dl([(name, each.get_short_help_str(limit)) for name, each in daily])
        super().format_commands(ctx, formatter)

    def _find(self, words: Words) -> Any:
        found: Any = self
        for word in words:
            found = found and found.commands.get(word)
        return found


def _writing_help(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.callback = _show_help
    return option


def _group(text: str, *, kind: type[TyperGroup] = _Group) -> typer.Typer:
    help_text, epilog = split_examples(text)
    # Plain help is fast, fits any terminal and can be pasted into documents.
    return typer.Typer(
        cls=kind,
        help=help_text,
        epilog=epilog,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )


def _show_version(value: bool) -> None:  # noqa: FBT001 typer passes the option's value
    if value:
        from engram import __version__

        print_line(f"engram {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]


def _root(*, version: Version = False) -> None:
    """The options of `engram` itself."""
