"""The tree of commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from engram.transport.cli import (
    append,
    conversations,
    doctor,
    documents,
    evaluate,
    facts,
    keys,
    mcp,
    memories,
    memory_changes,
    memory_files,
    migrate,
    models,
    notes,
    organizations,
    postgres,
    recall,
    reembed,
    search,
    serve,
    upkeep,
)

EXAMPLES = """\b
Examples:
  engram serve                          run the server; shows a key once
  claude mcp add engram -- engram mcp   a memory for Claude Code, no server
  engram conversations append "The demo is on Friday"
  engram search "when is the demo?"
\b
The store is one directory: --home, ENGRAM_HOME, or the XDG data directory.
With --json, which every command takes, stdout holds the answer alone.
Exit status: 0 done, 1 failed or found something wrong, 2 a mistaken call.
"""


def build_app() -> typer.Typer:
    """Return the command line with all its commands."""
    app = _group("Memory for AI agents: kept verbatim, found again.", epilog=EXAMPLES)
    app.callback()(_root)
    app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
    app.command("mcp", epilog=mcp.EXAMPLES)(mcp.mcp)
    app.command("search", epilog=search.EXAMPLES)(search.search)
    app.add_typer(_conversations(), name="conversations")
    app.add_typer(_notes(), name="notes")
    app.add_typer(_memories(), name="memories")
    app.add_typer(_documents(), name="documents")
    app.add_typer(_organizations(), name="orgs")
    app.add_typer(_keys(), name="keys")
    app.add_typer(_models(), name="models")
    app.add_typer(_migrate(), name="migrate")
    app.add_typer(_postgres(), name="postgres")
    app.command("status", epilog=upkeep.STATUS_EXAMPLES)(upkeep.status)
    app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
    app.command("index", epilog=upkeep.INDEX_EXAMPLES)(upkeep.index)
    app.command("reindex", epilog=upkeep.REINDEX_EXAMPLES)(upkeep.reindex)
    app.command("reembed", epilog=reembed.EXAMPLES)(reembed.reembed)
    app.command("eval", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
    app.command("limits", epilog=facts.LIMITS_EXAMPLES)(facts.limits)
    app.command("version", epilog=facts.VERSION_EXAMPLES)(facts.version)
    return app


def run_app(arguments: Sequence[str]) -> None:
    """Run the command that `arguments` name; exits with its status."""
    # Not by calling the app: that would install a hook which prints tracebacks in its own way.
    typer.main.get_command(build_app()).main(args=list(arguments), prog_name="engram")


def _conversations() -> typer.Typer:
    group = _group("Keep, read and remove conversations.")
    group.command("list", epilog=conversations.LIST_EXAMPLES)(conversations.list_conversations)
    group.command("show", epilog=conversations.SHOW_EXAMPLES)(conversations.show_conversation)
    group.command("create", epilog=conversations.CREATE_EXAMPLES)(conversations.create_conversation)
    group.command("append", epilog=append.EXAMPLES)(append.append)
    group.command("delete", epilog=conversations.DELETE_EXAMPLES)(conversations.delete_conversation)
    return group


def _notes() -> typer.Typer:
    group = _group("Keep facts, list them and remove them.")
    group.command("add", epilog=notes.ADD_EXAMPLES)(notes.add_notes)
    group.command("list", epilog=notes.LIST_EXAMPLES)(notes.list_notes)
    group.command("context", epilog=notes.CONTEXT_EXAMPLES)(notes.fetch_context)
    group.command("remove", epilog=notes.REMOVE_EXAMPLES)(notes.remove_note)
    return group


def _memories() -> typer.Typer:
    group = _group("Keep typed memories, correct them and look back at them.")
    group.command("store", epilog=memories.STORE_EXAMPLES)(memories.store_memory)
    group.command("recall", epilog=recall.EXAMPLES)(recall.recall_memories)
    group.command("show", epilog=memories.SHOW_EXAMPLES)(memories.show_memory)
    group.command("list", epilog=memories.LIST_EXAMPLES)(memories.list_memories)
    group.command("correct", epilog=memory_changes.CORRECT_EXAMPLES)(memory_changes.correct_memory)
    group.command("forget", epilog=memory_changes.FORGET_EXAMPLES)(memory_changes.forget_memory)
    group.command("connect", epilog=memory_changes.CONNECT_EXAMPLES)(
        memory_changes.connect_memories
    )
    group.command("history", epilog=memories.HISTORY_EXAMPLES)(memories.show_history)
    group.command("export", epilog=memory_files.EXPORT_EXAMPLES)(memory_files.export_memories)
    group.command("import", epilog=memory_files.IMPORT_EXAMPLES)(memory_files.import_memories)
    return group


def _documents() -> typer.Typer:
    group = _group("Keep files as documents, byte for byte, and get them back.")
    group.command("add", epilog=documents.ADD_EXAMPLES)(documents.add_documents)
    group.command("list", epilog=documents.LIST_EXAMPLES)(documents.list_documents)
    group.command("show", epilog=documents.SHOW_EXAMPLES)(documents.show_document)
    group.command("get", epilog=documents.GET_EXAMPLES)(documents.get_document)
    group.command("remove", epilog=documents.REMOVE_EXAMPLES)(documents.remove_document)
    return group


def _organizations() -> typer.Typer:
    group = _group("Manage the organisations of this store, as its operator.")
    group.command("list", epilog=organizations.LIST_EXAMPLES)(organizations.list_organizations)
    group.command("create", epilog=organizations.CREATE_EXAMPLES)(organizations.create_organization)
    group.command("set", epilog=organizations.SET_EXAMPLES)(organizations.set_organization)
    group.command("delete", epilog=organizations.DELETE_EXAMPLES)(organizations.delete_organization)
    return group


def _keys() -> typer.Typer:
    group = _group("Manage API keys, as the operator of this store.")
    group.command("list", epilog=keys.LIST_EXAMPLES)(keys.list_keys)
    group.command("create", epilog=keys.CREATE_EXAMPLES)(keys.create_key)
    group.command("rotate", epilog=keys.ROTATE_EXAMPLES)(keys.rotate_key)
    group.command("revoke", epilog=keys.REVOKE_EXAMPLES)(keys.revoke_key)
    group.command("operator-token", epilog=keys.OPERATOR_EXAMPLES)(keys.make_operator_token)
    return group


def _models() -> typer.Typer:
    group = _group("Get and prove the model files that search by meaning needs.")
    group.command("list", epilog=models.LIST_EXAMPLES)(models.list_models)
    group.command("pull", epilog=models.PULL_EXAMPLES)(models.pull_models)
    group.command("verify", epilog=models.VERIFY_EXAMPLES)(models.verify_models)
    group.command("path", epilog=models.PATH_EXAMPLES)(models.show_path)
    return group


def _migrate() -> typer.Typer:
    group = _group("Move the store between a directory and a PostgreSQL database.")
    group.command("sqlite-to-postgres", epilog=migrate.TO_POSTGRES_EXAMPLES)(
        migrate.sqlite_to_postgres
    )
    group.command("postgres-to-sqlite", epilog=migrate.TO_SQLITE_EXAMPLES)(
        migrate.postgres_to_sqlite
    )
    return group


def _postgres() -> typer.Typer:
    group = _group("Spread a PostgreSQL database over several servers.")
    group.command("setup", epilog=postgres.SETUP_EXAMPLES)(postgres.setup)
    group.command("distribute", epilog=postgres.DISTRIBUTE_EXAMPLES)(postgres.distribute)
    group.command("shard", epilog=postgres.SHARD_EXAMPLES)(postgres.shard)
    return group


def _group(help_text: str, *, epilog: str | None = None) -> typer.Typer:
    # Plain help: it is quick, fits any terminal and can be pasted into documents.
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
