"""Check every statement and migration of the PostgreSQL store for what Citus refuses.

Each rule is something that a cluster of Citus 14 did with a statement that PostgreSQL accepts.
`python -m tools.citus` names the statements that break one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import sqlglot
from sqlglot import exp

from engram.storage.postgres.migrate import load_migrations
from engram.storage.rows.queries import split_statements
from tests.postgres.statements import all_statements, alternatives

FIRST_ON_CLUSTERS = 16
"""Migrations before this one ran before the tables could be distributed."""

_SENT_ONE_BY_ONE = re.compile(r"postgres/(transactions|migrate)\.sql")
"""Files whose statements are split before they are sent."""

_CHANGE = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b", re.IGNORECASE)
_SET = re.compile(r"\s*SET\b", re.IGNORECASE)
_POLICY = re.compile(r"\b(?:CREATE|ALTER)\s+POLICY\b.*?(?=;|\$\w*\$|\Z)", re.DOTALL | re.IGNORECASE)
_SUBSELECT = re.compile(r"\(\s*SELECT\b", re.IGNORECASE)
_EXTENSION = re.compile(r"\bCREATE\s+EXTENSION\s+IF\s+NOT\s+EXISTS\b", re.IGNORECASE)
_STORAGE = re.compile(r"\bSTORAGE EXTERNAL\b")
_COMMENT = re.compile(r"--[^\n]*")


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables are distributed, which are not, and which columns draw numbers by themselves."""

    tenant: frozenset[str]
    local: frozenset[str]
    identities: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A statement that a cluster refuses."""

    name: str
    reason: str


Rule = Callable[[exp.Expr, Tables], bool]


def slices_in_assignment(tree: exp.Expr, _: Tables) -> bool:
    """Return True if an UPDATE assigns a bare slice of an array, which crashes the coordinator."""
    return any(
        isinstance(assigned.expression.unnest(), exp.Bracket)
        for update in tree.find_all(exp.Update)
        for assigned in update.expressions
        if isinstance(assigned, exp.EQ)
    )


def pulls_rows(tree: exp.Expr, tables: Tables) -> bool:
    """Return True if an INSERT … SELECT is run by the coordinator, which then needs COPY."""
    return any(
        not (insert.args.get("conflict") or insert.args.get("returning"))
        and not _takes_the_column(insert, select)
        for insert, select in _inserted_selects(tree, tables)
    )


def numbers_across(tree: exp.Expr, tables: Tables) -> bool:
    """Return True if an INSERT … SELECT has a window that is not of one organisation."""
    return any(
        not any(map(_is_organization, window.args.get("partition_by") or ()))
        for _, select in _inserted_selects(tree, tables)
        for window in select.find_all(exp.Window)
    )


def draws_numbers(tree: exp.Expr, tables: Tables) -> bool:
    """Return True if an INSERT … SELECT has servers draw numbers, from sequences of their own."""
    return any(
        {column for table, column in tables.identities if table == _target(insert)}
        - {column.name for column in insert.this.expressions}
        for insert, _ in _inserted_selects(tree, tables)
    )


def inserts_within(tree: exp.Expr, _: Tables) -> bool:
    """Return True if a part of a WITH inserts what it selects."""
    return any(
        isinstance(insert.expression, exp.Query)
        for part in tree.find_all(exp.CTE)
        for insert in part.find_all(exp.Insert)
    )


def joins_local_tables(tree: exp.Expr, tables: Tables) -> bool:
    """Return True if a statement is on distributed tables and on others, which are elsewhere."""
    named = {table.name for table in tree.find_all(exp.Table)}
    return bool(named & tables.tenant and named & tables.local)


RULES: dict[Rule, str] = {
    slices_in_assignment: "an UPDATE assigns a bare slice of an array; put it into coalesce()",
    pulls_rows: "an INSERT … SELECT does not select the column organization_id; the coordinator would "
    "copy the rows, which row-level security refuses",
    numbers_across: "a window of an INSERT … SELECT is not PARTITION BY organization_id",
    draws_numbers: "an INSERT … SELECT leaves out an identity column; other servers may not use its sequence",
    inserts_within: "an INSERT … SELECT is a part of a WITH",
    joins_local_tables: "a statement is on tables of organisations and on others",
}


def faults_of_change(statement: str, tables: Tables) -> Iterator[str]:
    """Yield why a cluster refuses a statement that reads or changes rows."""
    tree = sqlglot.parse_one(statement.replace("%%", "%"), dialect="postgres")
    yield from (reason for rule, reason in RULES.items() if rule(tree, tables))


def faults_of_text(text: str) -> Iterator[str]:
    """Yield why a cluster refuses a text that is sent as a whole."""
    statements = split_statements(text)
    if len(statements) > 1 and any(map(_SET.match, statements)):
        yield "a SET is sent together with other statements, which other servers would be passed"


def faults_of_definition(text: str) -> Iterator[str]:
    """Yield why a cluster refuses a statement that defines something."""
    if any(_SUBSELECT.search(policy) for policy in _POLICY.findall(_COMMENT.sub("", text))):
        yield "a policy has a sub-select"
    if _EXTENSION.search(_COMMENT.sub("", text)):
        yield "CREATE EXTENSION IF NOT EXISTS is run by all servers even if there is nothing to do"


@cache
def read_tables() -> Tables:
    """Return the tables of the schema."""
    tenant, local, identities = set[str](), {"near_vector"}, set[tuple[str, str]]()
    for statement in split_statements(_schema()):
        if "CREATE TABLE" not in statement or "$$" in statement:
            continue
        table = sqlglot.parse_one(_STORAGE.sub("", statement), dialect="postgres")
        columns = {column.name: column for column in table.find_all(exp.ColumnDef)}
        owner = columns.get("organization_id")
        is_tenant = owner is not None and owner.args["kind"].sql() == "BIGINT"
        (tenant if is_tenant else local).add(table.this.this.name)
        identities |= {
            (table.this.this.name, name)
            for name, column in columns.items()
            if column.find(exp.GeneratedAsIdentityColumnConstraint)
        }
    return Tables(frozenset(tenant), frozenset(local), frozenset(identities))


def find_faults() -> Iterator[Fault]:
    """Yield every statement of the store that breaks a rule."""
    tables = read_tables()
    for name, text in all_statements():
        if not _SENT_ONE_BY_ONE.match(name):
            yield from (Fault(name, reason) for reason in faults_of_text(text))
        for statement in split_statements(text):
            yield from (Fault(name, reason) for reason in faults_of_definition(statement))
            whole = alternatives(statement)[0]
            if _CHANGE.match(whole):
                yield from (Fault(name, reason) for reason in faults_of_change(whole, tables))
    yield from (Fault("schema.sql", reason) for reason in faults_of_definition(_schema()))
    for step in load_migrations():
        reasons = set(faults_of_definition(step.sql))
        if step.version < FIRST_ON_CLUSTERS:
            # A later one replaces what stands in the way of distributing the tables.
            reasons.discard("a policy has a sub-select")
        yield from (Fault(step.name, reason) for reason in reasons)


def main() -> int:
    """Print the statements that break a rule; return 1 if there are any."""
    faults = list(find_faults())
    for fault in faults:
        print(f"{fault.name}: {fault.reason}")
    print(f"{len(list(all_statements()))} statements, {len(faults)} that Citus refuses")
    return int(bool(faults))


def _schema() -> str:
    return files("engram.storage.postgres").joinpath("schema.sql").read_text(encoding="utf-8")


def _inserted_selects(tree: exp.Expr, tables: Tables) -> Iterator[tuple[exp.Insert, exp.Expr]]:
    """Yield each INSERT into a tenant table that selects what it inserts, and what that is."""
    for insert in tree.find_all(exp.Insert):
        if _target(insert) in tables.tenant and isinstance(insert.expression, exp.Query):
            yield insert, insert.expression


def _takes_the_column(insert: exp.Insert, select: exp.Expr) -> bool:
    columns = [column.name for column in insert.this.expressions]
    if "organization_id" not in columns:
        return False
    return _is_organization(select.expressions[columns.index("organization_id")])


def _is_organization(part: exp.Expr) -> bool:
    return isinstance(part, exp.Column) and part.name == "organization_id"


def _target(insert: exp.Insert) -> str:
    table = insert.find(exp.Table)
    return "" if table is None else table.name


if __name__ == "__main__":
    sys.exit(main())
