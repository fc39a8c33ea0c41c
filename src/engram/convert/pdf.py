"""Convert PDF to text, page by page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from engram.errors import ConversionError, ConverterMissingError
from engram.limits import PDF_PAGES_MAX

if TYPE_CHECKING:
    import pypdfium2

_SOFT_HYPHEN = "\x02"
"""What PDFium returns for a hyphen at the end of a line."""


def convert_pdf(source: Path, write: Callable[[str], object]) -> None:
    """Write the text of a PDF file.

    Raises:
        ConversionError: it is damaged, password-protected or has too many pages.
        ConverterMissingError: the extra is not installed.
    """
    try:
        import pypdfium2
    except ModuleNotFoundError as exc:
        raise ConverterMissingError(
            "PDF needs the extra 'documents': pip install 'engram[documents]'"
        ) from exc
    try:
        document = pypdfium2.PdfDocument(source)
    except pypdfium2.PdfiumError as exc:
        raise ConversionError(f"this PDF cannot be read: {exc}") from exc
    with closing(document):
        if len(document) > PDF_PAGES_MAX:
            raise ConversionError(f"this PDF has more than {PDF_PAGES_MAX:,} pages")
        for number in range(len(document)):
            try:
                text = _page_text(document, number)
            except pypdfium2.PdfiumError:
                # The other pages are still worth indexing.
                text = f"[page {number + 1} cannot be read]"
            write(text.strip() + "\n\n")


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    with closing(document[number]) as page, closing(page.get_textpage()) as words:
        text = words.get_text_bounded()
    return text.replace("\r\n", "\n").replace(_SOFT_HYPHEN, "")
