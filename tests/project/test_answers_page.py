"""The page on answers: its example is what is sent, and its figures can be renewed."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from bench.chart import EvidenceCurves, draw_evidence
from bench.evidence import BEGIN, END, PAGE, curves_of, with_figures
from engram.api.search import search, search_text
from engram.embedding.choice import NoEmbedder
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.search import SearchRequest
from engram.settings import Settings
from engram.wiring import open_service
from tests.cli.commands import Engram
from tests.evaluation.sets import write_set


async def test_the_example_is_what_is_sent(tmp_path: Path) -> None:
    text = PAGE.read_text()
    [shown] = re.findall(r"^```\n(a1 .*?)^```", text, re.DOTALL | re.MULTILINE)
    said = datetime(2024, 5, 6, tzinfo=UTC)
    drafts = (
        MessageDraft(
            role="user",
            name="Ann",
            content="The spare key hangs behind the blue door.",
            occurred_at=said,
        ),
        MessageDraft(
            role="assistant", content="Noted: the key behind the blue door.", occurred_at=said
        ),
    )
    request = SearchRequest(query="Where does the spare key hang?")

    async with open_service(Settings(home=tmp_path, embedder=NoEmbedder())) as service:
        me = await service.access.local_principal()
        made = await service.conversations.create_conversation(me, ConversationDraft(title="Home"))
        append = AppendRequest(messages=drafts, conversation_id=made)
        await service.conversations.append_messages(me, append)
        sent = search_text(await search(service, me, request), request.token_budget)

    # Without an embedder, a last line says so.
    assert sent.replace(made[5:10], "3f9cQ").startswith(shown)


def test_the_page_gets_a_row_for_each_set() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    report = {"set": "some.dev", "quality": {"paid@500": 78.123}, "costs": {"tokens": 812.4}}

    renewed = with_figures(page, [report])

    assert "| some.dev | 812 | - | - | 78.1 % |" in renewed
    assert renewed.startswith("before\n")
    assert renewed.endswith("\nafter\n")
    assert "old" not in renewed


def test_the_page_has_the_marks_that_its_figures_come_between() -> None:
    page = PAGE.read_text()

    assert page.count(BEGIN) == page.count(END) == 1


def test_the_picture_is_drawn_from_the_figures_of_an_evaluation(tmp_path: Path) -> None:
    small, measured, picture = (tmp_path / name for name in ("s.jsonl", "eval.json", "e.png"))
    Engram(tmp_path)("eval", str(write_set(small)), "--output", str(measured), embedder="none")
    [report] = json.loads(measured.read_bytes())["sets"]

    curves = curves_of(report)
    draw_evidence([curves, curves], picture)

    assert curves == EvidenceCurves(
        name="small.own",
        tokens=report["curves"]["at"],
        answer=report["curves"]["answer"],
        dump=report["curves"]["dump"],
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
