"""Make one document text, in a process that is confined."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from engram import limits
from engram.convert.target import TextTarget
from engram.errors import ConversionError, ConverterMissingError


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert a file and print as JSON how it went."""
    request = _parser().parse_args(arguments)
    print(json.dumps(_outcome(request)))  # noqa: T201 it is what the other process reads
    return 0


def _outcome(request: argparse.Namespace) -> dict[str, str]:
    try:
        _convert(request.kind, request.source, request.target, charset=request.charset)
    except (ConversionError, ConverterMissingError) as exc:
        return {"code": exc.code, "message": exc.message}
    except MemoryError:
        return {"code": "conversion_failed", "message": "it needs too much memory to be read"}
    except RecursionError:
        return {"code": "conversion_failed", "message": "its parts are nested too deeply"}
    except Exception as exc:  # noqa: BLE001 the top of this process: converters may raise anything
        told = f"it cannot be read: {type(exc).__name__}: {exc}"
        return {"code": "conversion_failed", "message": told[:500]}
    return {"code": "converted", "message": ""}


def _convert(kind: str, source: Path, target: Path, *, charset: str | None) -> None:
    with target.open("wb") as file:
        text = TextTarget(file, bytes_max=limits.CONVERTED_BYTES_MAX)
        if kind == "html":
            from engram.convert.html import convert_html

            convert_html(source, text, charset=charset)
        elif kind == "pdf":
            from engram.convert.pdf import convert_pdf

            convert_pdf(source, text)
        else:
            from engram.convert.docx import convert_docx

            convert_docx(source, text)
    if not text.has_text:
        raise ConversionError("there is no text in it; pages that are pictures have none")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engram.convert", description=__doc__)
    parser.add_argument("kind", choices=["html", "pdf", "docx"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--charset")
    return parser
