"""The command tree: groups, commands and the printers of operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import typer

from engram.api.operation import AnyOperation
from engram.api.table import OPERATIONS
from engram.cli import (
    access,
    conversations,
    documents,
    evaluate,
    maintenance,
    memories,
    migrate,
    models,
    notes,
    postgres,
    search,
    serve,
    status,
)
from engram.cli.operations import Show, operation_command

HELP = """Memory for AI agents: stored verbatim, searchable by words and meaning.

Examples:
  engram serve                          start the server; shows a key once
  claude mcp add engram -- engram mcp   memory for Claude Code, no server
  engram conversations append "The demo is on Friday"
  engram search "when is the demo?"

The store is one directory: --home, ENGRAM_HOME, or the XDG data directory.
With --json, which every command accepts, stdout contains only the answer.
Exit status: 0 success, 1 failure or problems found, 2 usage error.
"""

Command = Callable[..., None]

GROUPS: Mapping[str, str] = {
    "conversations": "Store, read and delete conversations.",
    "notes": "Store, list and remove notes.",
    "memories": "Store, recall and correct typed memories.",
    "documents": "Store files as documents, byte for byte, and retrieve them.",
    "orgs": "Manage the organisations of this store, as its operator.",
    "keys": "Manage API keys, as the operator of this store.",
    "models": "Download and verify the model files for semantic search.",
    "migrate": "Move the store between a directory and a PostgreSQL database.",
    "postgres": "Set up a PostgreSQL database, or spread it over several servers.",
}
"""Help texts of the command groups."""

SERVERS: Mapping[tuple[str, ...], Command] = {("serve",): serve.serve, ("mcp",): serve.mcp}

COMMANDS: Mapping[tuple[str, ...], Command] = {
    ("status",): status.status,
    ("doctor",): maintenance.doctor,
    ("index",): maintenance.index,
    ("reindex",): maintenance.reindex,
    ("reembed",): maintenance.reembed,
    ("eval",): evaluate.evaluate,
    ("limits",): status.limits,
    ("version",): status.version,
    ("conversations", "append"): conversations.append,
    ("notes", "add"): notes.add_notes,
    ("memories", "export"): memories.export_memories,
    ("memories", "import"): memories.import_memories,
    ("documents", "add"): documents.add_documents,
    ("documents", "get"): documents.get_document,
    ("orgs", "delete"): access.delete_organization,
    ("keys", "list"): access.list_keys,
    ("keys", "create"): access.create_key,
    ("keys", "rotate"): access.rotate_key,
    ("keys", "revoke"): access.revoke_key,
    ("keys", "operator-token"): access.make_operator_token,
    ("models", "list"): models.list_models,
    ("models", "pull"): models.pull_models,
    ("models", "verify"): models.verify_models,
    ("models", "path"): models.show_path,
    ("migrate", "sqlite-to-postgres"): migrate.sqlite_to_postgres,
    ("migrate", "postgres-to-sqlite"): migrate.postgres_to_sqlite,
    ("postgres", "setup"): postgres.setup,
    ("postgres", "distribute"): postgres.distribute,
    ("postgres", "shard"): postgres.shard,
}
"""Commands that are more than one operation."""

PRINTERS: Mapping[str, Show] = {
    "search": search.print_found,
    "list_conversations": conversations.print_conversations,
    "get_conversation": conversations.print_conversation,
    "create_conversation": conversations.print_created,
    "delete_conversation": conversations.print_deleted,
    "list_entries": notes.print_notes,
    "fetch_context": notes.print_context,
    "remove_entry": notes.print_removed_note,
    "memory_store": memories.print_stored,
    "memory_recall": memories.print_recalled,
    "memory_fetch": memories.print_memory,
    "memory_list": memories.print_memories,
    "memory_correct": memories.print_corrected,
    "memory_forget": memories.print_forgotten,
    "memory_connect": memories.print_connected,
    "memory_history": memories.print_history,
    "list_documents": documents.print_documents,
    "document_status": documents.print_document,
    "remove_document": documents.print_removed_document,
    "list_organizations": access.print_organizations,
    "create_organization": access.print_created_organization,
    "change_organization": access.print_changed_organization,
}
"""Printers of the answers of operations; their docstrings are the commands' help texts."""


def build_app(operations: Iterable[AnyOperation] = OPERATIONS) -> typer.Typer:
    """Return the command line with all its commands."""
    app = _group(HELP)
    app.callback()(_root)
    groups = {name: _group(help_text) for name, help_text in GROUPS.items()}
    commands = {**SERVERS, **_operation_commands(operations), **COMMANDS}
    for words, command in commands.items():
        group = app if len(words) == 1 else groups[words[0]]
        help_text, examples = split_examples(inspect.getdoc(command) or "")
        group.command(words[-1], help=help_text, epilog=examples)(command)
    for name, group in groups.items():
        app.add_typer(group, name=name)
    return app


def _operation_commands(operations: Iterable[AnyOperation]) -> dict[tuple[str, ...], Command]:
    return {
        operation.command.words: operation_command(operation, PRINTERS.get(operation.name))
        for operation in operations
        if operation.command is not None
    }


def run_app(arguments: Sequence[str]) -> None:
    """Run the command named by `arguments` and exit with its status."""
    # Calling the app itself would install an exception hook that formats tracebacks.
    typer.main.get_command(build_app()).main(args=list(arguments), prog_name="engram")


def split_examples(text: str) -> tuple[str, str | None]:
    """Split a docstring into the help text and the examples, an epilog that click does not rewrap."""
    help_text, heading, examples = text.partition("\n\nExamples:\n")
    epilog = f"Examples:\n{examples.rstrip()}".replace("\n\n", "\n\n\b\n")
    return help_text, f"\b\n{epilog}" if heading else None


def _group(text: str) -> typer.Typer:
    help_text, epilog = split_examples(text)
    # Plain help is fast, fits any terminal and can be pasted into documents.
    return typer.Typer(
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

        typer.echo(f"engram {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
]


def _root(*, version: Version = False) -> None:
    """The options of `engram` itself."""
