"""Queries: which ask for an overview, and which name a topic."""

from __future__ import annotations

import pytest

from engram.search.questions import general_reasons, names_topic


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("project status and recent decisions", {"decision", "latest"}),
        ("what should I know", set[str]()),
        ("Catch me up!", set[str]()),
        ("where did we leave off last time?", {"open", "latest"}),
        ("what is the current state of the work?", {"latest"}),
        ("user preferences", {"preference"}),
        ("open tasks and next steps", {"open"}),
        ("What are the open tasks?", {"open"}),
        ("what is left", {"open"}),
        ("Tell me everything you remember", set[str]()),
        ("status of the billing rewrite", None),
        ("recent decisions about Postgres", None),
        ("onboarding friction points", None),
        ("was wir zuletzt entschieden haben", {"decision", "latest"}),
        ("Projektstand und offene Aufgaben", {"open"}),
        ("Was sollte ich über das Projekt wissen?", set[str]()),
        ("estado del proyecto y decisiones recientes", {"decision", "latest"}),
        ("¿Qué tareas quedan pendientes?", {"open"}),
        ("état du projet et décisions récentes", {"decision", "latest"}),
        ("Où en sommes-nous ?", set[str]()),
        ("préférences de l'utilisateur", {"preference"}),
        ("项目进展和最近的决定", {"decision", "latest"}),
        ("我应该知道什么", set[str]()),
        ("支付网关的最新进展", None),
        ("Stand der Abrechnung", None),
        ("état de la facturation", None),
        ("what happened in the war", None),
        ("?!", None),
        ("status " * 100, None),
    ],
)
def test_a_question_is_general_if_no_word_names_a_subject(
    query: str, asked: set[str] | None
) -> None:
    assert general_reasons(query) == asked


@pytest.mark.parametrize(
    ("query", "is_topic"),
    [
        ("onboarding friction points", True),
        ("Deploying the billing service", True),
        ("how do we deploy", False),
        ("billing service?", False),
        ("\u8bf7\u6c42\u5931\u8d25\uff1f", False),
        ("moving the billing service to signed cookies with rotation", False),
        ("", True),
        ("word " * 100, False),
    ],
)
def test_a_few_words_that_ask_nothing_are_a_topic(query: str, *, is_topic: bool) -> None:
    assert names_topic(query) is is_topic
