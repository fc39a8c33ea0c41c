"""The converter process: convert one document and report the outcome as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from engram import limits
from engram.errors import ConversionError, ConverterMissingError


class BoundedTextWriter:
    """Writes UTF-8 to a file, up to a number of bytes."""

    def __init__(self, file: BinaryIO, *, bytes_max: int) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._bytes = 0
        self.has_text = False
        """Whether anything but white space was written."""

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            ConversionError: the text exceeds the limit.
        """
        # Some documents contain lone surrogates and NUL, which stored text cannot.
        data = text.replace("\0", "").encode(errors="replace")
        self._bytes += len(data)
        if self._bytes > self._bytes_max:
            raise ConversionError(f"the document has more than {self._bytes_max:,} bytes of text")
        self._file.write(data)
        self.has_text = self.has_text or not text.isspace()


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert a file and print the outcome as JSON."""
    request = _parser().parse_args(arguments)
    print(json.dumps(_outcome(request)))  # noqa: T201 the parent process reads it
    return 0


def _outcome(request: argparse.Namespace) -> dict[str, str]:
    try:
        _convert(request.kind, request.source, request.target, charset=request.charset)
    except (ConversionError, ConverterMissingError) as exc:
        return {"code": exc.code, "message": exc.message}
    except MemoryError:
        return {
            "code": "conversion_failed",
            "message": "the document needs too much memory to convert",
        }
    except RecursionError:
        return {"code": "conversion_failed", "message": "the document is nested too deeply"}
    except Exception as exc:  # noqa: BLE001 top of the process: libraries may raise anything
        message = f"the document cannot be read: {type(exc).__name__}: {exc}"
        return {"code": "conversion_failed", "message": message[:500]}
    return {"code": "converted", "message": ""}


def _convert(kind: str, source: Path, target: Path, *, charset: str | None) -> None:
    with target.open("wb") as file:
        text = BoundedTextWriter(file, bytes_max=limits.CONVERTED_BYTES_MAX)
        if kind == "html":
            from engram.convert.html import convert_html

            convert_html(source, text.write, charset=charset)
        elif kind == "pdf":
            from engram.convert.pdf import convert_pdf

            convert_pdf(source, text.write)
        else:
            from engram.convert.docx import convert_docx

            convert_docx(source, text.write)
    if not text.has_text:
        raise ConversionError("the document contains no text; scanned pages have none")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engram.convert", description=__doc__)
    parser.add_argument("kind", choices=["html", "pdf", "docx"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--charset")
    return parser
