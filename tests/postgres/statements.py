"""Every statement on rows of organisations, as it is sent to PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from engram.storage.postgres.connection import translate
from engram.storage.rows.queries import load_queries
from tests.statements import statement_files

_NO_STATEMENTS_OF_TENANTS = {
    "control.sql",
    "migrate.sql",
    # They define tables.
    "citus.sql",
}

_PUT_IN = {
    "/*order*/": "number",
    "/*table*/": "vector",
    "/*organization*/": "7",
    "/*embedder*/": "1",
    "/*dimensions*/": "4",
    "{table}": "message",
    "{columns}": "key, content",
    "{written}": "key, content",
    "{values}": ":key, :content",
    "{key}": "key",
    "{after}": "AND key > :after",
    "{condition}": "AND row_hash IS NULL",
    "AND {which}": "AND key = :key",
    "{which}": "AND key = :key",
    "{limit}": "LIMIT :limit",
    "{within}": "AND key > :after",
    "{size}": "length(content)",
    "{arrays}": "CAST(:keys AS bigint[]), CAST(:contents AS bytea[])",
    "{conflict}": "DO NOTHING",
    "{same}": ":key",
    "{due}": "AND scrub_until <= :now",
}
"""What stands in a statement's place for other pieces of it."""

_INTO_PARTITION = "INSERT INTO near_vector_7"
"""The vectors of a big organisation have a table of their own, which is not there for number 7."""

_PIECES_OF = ("conversation", "message", "memory", "episode", "near_vector")
"""Tables whose statements get conditions put in."""

_VALUE = re.compile(r"%\((\w+)\)s")
_INSERT = re.compile(r"\bINSERT INTO \w+\s*\(([^)]*)\)\s*(?:VALUES\s*\(|SELECT\s)")


def tenant_statements(tables: set[str]) -> Iterator[tuple[str, str]]:
    """Yield name and text of each statement that names a table of organisations."""
    named = re.compile(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING|,)\s+(?:{'|'.join(tables)})\b")
    for name, statement in all_statements():
        is_of_tenants = name.split(":")[0].rpartition("/")[2] not in _NO_STATEMENTS_OF_TENANTS
        for text in statement.split(";") if is_of_tenants else ():
            if named.search(text) and not text.strip().startswith(_INTO_PARTITION):
                yield name, text.strip()


def alternatives(statement: str) -> list[str]:
    """Return the statement, or what it may be a condition or a column of."""
    if not statement.startswith(("AND", "(")):
        return [statement]
    if statement.startswith("("):
        return [
            f"SELECT {statement} FROM {table} WHERE {table}.organization_id = %(organization_id)s"  # noqa: S608 ours
            for table in _PIECES_OF
        ]
    return [
        f"SELECT 1 FROM {table} WHERE {table}.organization_id = %(organization_id)s {statement}"  # noqa: S608 ours
        for table in _PIECES_OF
    ]


def with_organization(statement: str, number: int) -> str:
    """Return a statement in which only the organisation has a value."""
    places: dict[str, str] = {"organization_id": str(number)}
    for name in _VALUE.findall(statement):
        places.setdefault(name, f"${len(places)}")
    return _VALUE.sub(lambda match: places[match[1]], statement).replace("%%", "%")


def added_organizations(statement: str) -> list[str]:
    """Return what a statement puts where the rows that it adds say whose they are."""
    return [
        _expressions(statement[match.end() :])[_names(match[1]).index("organization_id")]
        for match in _INSERT.finditer(statement)
    ]


def _names(columns: str) -> list[str]:
    return [column.strip() for column in columns.split(",")]


def _expressions(text: str) -> list[str]:
    """Return the parts between commas that no bracket encloses, up to where a bracket closes."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def all_statements() -> Iterator[tuple[str, str]]:
    """Yield file, name and text of each statement of the store."""
    for path, statements in statement_files():
        if not path.startswith("sqlite/"):
            for name, statement in statements.items():
                yield f"{path}: {name}", _translated(statement)


def _translated(statement: str) -> str:
    for mark, piece in {**_PUT_IN, "/*found*/": _found(statement)}.items():
        statement = statement.replace(mark, piece)
    return translate(statement).text.decode()


def _found(statement: str) -> str:
    """Return what finds the columns that a repair asks for."""
    checks = load_queries("checks/vectors.sql")
    if "place" in statement:
        return checks["bad_vectors"].removesuffix(";")
    if "embedder" in statement:
        return checks["broken_passages"].removesuffix(";")
    return checks["lost_messages"].removesuffix(";")
