"""Damaged PDF and DOCX files become text or are refused, in the process that converts them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from engram.convert.kinds import Kind
from engram.convert.sandbox import convert_file
from engram.errors import ConversionError
from tests.convert.files import a_docx, a_paragraph, a_pdf
from tests.fuzz.targets import mutated
from tests.promises import promise

FILES = 8
WHOLE: dict[Kind, bytes] = {
    "pdf": a_pdf([["The harbour opens at six.", "It is deep."], ["The end."]]),
    "docx": a_docx(a_paragraph("Harbours", style="Heading1") + a_paragraph("They open at six.")),
}


@promise("clear", "fair", files=2 * FILES)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_damaged_document_becomes_text_or_is_refused(tmp_path: Path, kind: Kind) -> None:
    source, target = tmp_path / "source", tmp_path / "text"
    for number in range(FILES):
        random = Random(f"{kind}/{number}")  # noqa: S311 no secret
        source.write_bytes(mutated(random, [WHOLE[kind]]))
        with suppress(ConversionError):
            convert_file(source, target, kind=kind)
            target.read_text(encoding="utf-8")
        target.unlink(missing_ok=True)
