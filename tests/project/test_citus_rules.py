"""The linter of statements for Citus: each rule has a statement that it refuses and one that it accepts."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from tools.citus import (
    RULES,
    Rule,
    draws_numbers,
    faults_of_definition,
    faults_of_text,
    find_faults,
    inserts_within,
    joins_local_tables,
    numbers_across,
    pulls_rows,
    read_tables,
    slices_in_assignment,
)

_REFUSED: list[tuple[Rule, str]] = [
    (
        slices_in_assignment,
        "UPDATE meta SET recent_writes = (%(mark)s || recent_writes)[1:32] WHERE organization_id = 1",
    ),
    (slices_in_assignment, "UPDATE meta SET recent_writes = ((recent_writes[1:32]))"),
    (
        pulls_rows,
        """INSERT INTO word_page (organization_id, generation, first_term, content)
        SELECT %(organization_id)s, generation, 'a', '' FROM word_index""",
    ),
    (
        pulls_rows,
        "INSERT INTO delivery (at, organization_id) SELECT coalesce(max(at), 0), 7 FROM delivery",
    ),
    (
        numbers_across,
        """INSERT INTO vector (seq, organization_id)
        SELECT row_number() OVER (ORDER BY seq), organization_id FROM vector""",
    ),
    (
        draws_numbers,
        "INSERT INTO unembedded (organization_id, key) SELECT organization_id, key FROM message",
    ),
    (
        inserts_within,
        """WITH added AS (INSERT INTO word_tail (organization_id, number)
            SELECT organization_id, 1 FROM word_index RETURNING number)
        UPDATE word_index SET words = words + added.number FROM added""",
    ),
    (
        joins_local_tables,
        "SELECT 1 FROM message JOIN organization ON organization.number = message.organization_id",
    ),
    (joins_local_tables, "DELETE FROM meta WHERE organization_id IN (SELECT number FROM removal)"),
]

_ACCEPTED: list[tuple[Rule, str]] = [
    (
        slices_in_assignment,
        "UPDATE meta SET recent_writes = coalesce((%(mark)s || recent_writes)[1:32], '{}')",
    ),
    (slices_in_assignment, "SELECT recent_writes[1:3] FROM meta"),
    (
        pulls_rows,
        """INSERT INTO word_page (organization_id, generation, first_term, content)
        SELECT word_index.organization_id, generation, 'a', '' FROM word_index""",
    ),
    (
        pulls_rows,
        """INSERT INTO delivery (at, organization_id)
        SELECT coalesce(max(at), 0), 7 FROM delivery RETURNING at""",
    ),
    (
        pulls_rows,
        "INSERT INTO upkeep (organization_id) SELECT %(organization_id)s ON CONFLICT DO NOTHING",
    ),
    (pulls_rows, "INSERT INTO meta (organization_id) VALUES (%(organization_id)s)"),
    (pulls_rows, "INSERT INTO organization (organization_id) SELECT 'org_1'"),
    (
        numbers_across,
        """INSERT INTO vector (seq, organization_id) SELECT
        row_number() OVER (PARTITION BY organization_id ORDER BY seq), organization_id FROM vector""",
    ),
    (
        draws_numbers,
        """INSERT INTO unembedded (organization_id, number, key)
        SELECT organization_id, -1, key FROM message""",
    ),
    (draws_numbers, "INSERT INTO unembedded (organization_id, key) VALUES (1, 2)"),
    (
        inserts_within,
        """WITH removed AS (DELETE FROM word_tail RETURNING number)
        UPDATE word_index SET words = words - removed.number FROM removed""",
    ),
    (joins_local_tables, "SELECT 1 FROM message JOIN memory USING (organization_id)"),
    (joins_local_tables, "SELECT 1 FROM api_key JOIN organization USING (organization_id)"),
]


def is_refused(rule: Rule, statement: str) -> bool:
    return rule(parse_one(statement, dialect="postgres"), read_tables())


@pytest.mark.parametrize(("rule", "statement"), _REFUSED)
def test_a_statement_that_a_cluster_refuses_is_found(rule: Rule, statement: str) -> None:
    assert is_refused(rule, statement)


@pytest.mark.parametrize(("rule", "statement"), _ACCEPTED)
def test_a_statement_that_a_cluster_runs_is_accepted(rule: Rule, statement: str) -> None:
    assert not is_refused(rule, statement)


def test_every_rule_is_tried_on_both_kinds_of_statement() -> None:
    assert {rule for rule, _ in _REFUSED} == {rule for rule, _ in _ACCEPTED} == set(RULES)


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ("BEGIN; SET LOCAL engram.organization_id = 1; SELECT 1 FROM meta", False),
        ("SET LOCAL search_path = engram; SET LOCAL statement_timeout = 0", False),
        ("SET LOCAL engram.organization_id = 1;", True),
        ("LISTEN engram_work; LISTEN engram_keys", True),
        ("SELECT ';'; SELECT 'SET'", True),
    ],
)
def test_a_set_is_sent_alone(text: str, *, is_fine: bool) -> None:
    assert (not list(faults_of_text(text))) is is_fine


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ("CREATE POLICY p ON t USING (a = (SELECT current_setting('x')))", False),
        ("DO $$ BEGIN EXECUTE $p$ ALTER POLICY p ON t USING (a = ( SELECT 1)) $p$; END $$", False),
        ("CREATE POLICY p ON t USING (a = current_setting('x')::bigint)", True),
        ("CREATE POLICY p ON t USING (true); SELECT (SELECT 1)", True),
        ("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public", False),
        ("CREATE EXTENSION vector -- never CREATE EXTENSION IF NOT EXISTS", True),
    ],
)
def test_definitions_are_those_that_a_cluster_passes_on(text: str, *, is_fine: bool) -> None:
    assert (not list(faults_of_definition(text))) is is_fine


def test_the_linter_knows_which_tables_are_distributed() -> None:
    tables = read_tables()

    assert {"message", "memory", "document_piece", "unembedded"} <= tables.tenant
    assert {"organization", "api_key", "migration", "near_vector"} <= tables.local
    assert {("unembedded", "number"), ("document", "number")} <= tables.identities


def test_no_statement_or_migration_of_the_store_is_refused() -> None:
    assert list(find_faults()) == []
