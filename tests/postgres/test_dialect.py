"""Each rule by which a statement for SQLite becomes one for PostgreSQL."""

from __future__ import annotations

import pytest

from engram.storage.postgres.connection import translate
from engram.storage.rows.queries import split_statements


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 WHERE a = :a AND b = :b", "SELECT 1 WHERE a = %(a)s AND b = %(b)s"),
        ("SELECT :a::text", "SELECT %(a)s::text"),
        ("SELECT ':' || a", "SELECT ':' || a"),
        ("SELECT a % 2", "SELECT a %% 2"),
        ("-- Returns :a.\nSELECT 1 -- 50 %\n/*conditions*/", "SELECT 1"),
        (
            "SELECT /*sqlite:*/ max(a, :b) /*postgres: greatest(a, :b) */ FROM t",
            "SELECT  greatest(a, %(b)s)  FROM t",
        ),
        (
            "/*sqlite:*/ a /*postgres: b */, /*sqlite:*/ c /*postgres: d */",
            "b ,  d",
        ),
        ("a IN (SELECT value FROM json_each(:list))", "a = ANY(%(list)s)"),
        ("a NOT IN (SELECT value FROM json_each(:list))", "a <> ALL(%(list)s)"),
        ("json_array_length(:list)", "cardinality(%(list)s)"),
        ("FROM t NOT INDEXED WHERE +a = 1", "FROM t  WHERE a = 1"),
        ("SELECT :a + b, a +1", "SELECT %(a)s + b, a +1"),
        ("CAST(coalesce(a, b) AS BLOB)", "coalesce(a, b)"),
        ("CAST(a AS TEXT), CAST(b AS BLOB)", "CAST(a AS TEXT), b"),
        ("group_concat(record)", "string_agg(record::text, ',')"),
        ("json_group_array(tag)", "coalesce(jsonb_agg(tag), '[]')::text"),
    ],
)
def test_a_statement_is_translated(statement: str, expected: str) -> None:
    assert translate(statement).text.decode() == expected


def test_a_json_list_becomes_an_array() -> None:
    statement = translate("a IN (SELECT value FROM json_each(:list)) AND b = :other")

    bound = statement.bind({"list": '[1, "x"]', "other": "[2]"})

    assert bound == {"list": [1, "x"], "other": "[2]"}


def test_content_becomes_bytes() -> None:
    statement = translate("INSERT INTO t VALUES (:content, :text)")

    assert statement.bind({"content": "ä", "text": "ä"}) == {"content": b"\xc3\xa4", "text": "ä"}
    assert statement.bind({"content": None, "text": "ä"}) == {"content": None, "text": "ä"}


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', \";\"; SELECT 2", ["SELECT ';', \";\"", "SELECT 2"]),
        ("SELECT 'it''s;'; -- a; b\nSELECT 2", ["SELECT 'it''s;'", "-- a; b\nSELECT 2"]),
        ("DO $$ BEGIN; END $$; DO $a$ $$;$$ $a$", ["DO $$ BEGIN; END $$", "DO $a$ $$;$$ $a$"]),
        ("SELECT /* ; */ 1; -- nothing more;\n", ["SELECT /* ; */ 1"]),
        (" ;; ", []),
    ],
)
def test_a_script_is_split_where_statements_end(script: str, statements: list[str]) -> None:
    assert split_statements(script) == statements
