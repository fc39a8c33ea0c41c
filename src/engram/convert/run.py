"""Convert a file to text in a sandboxed process, and report why if that fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from engram import limits
from engram.convert.kinds import Kind
from engram.convert.sandbox import ProcessResult, run_confined
from engram.errors import ConversionError, ConverterMissingError, UnavailableError

_MESSAGE_CHARACTERS_MAX = 600


def convert_file(
    source: Path,
    target: Path,
    *,
    kind: Kind,
    charset: str | None = None,
    seconds: float = limits.CONVERSION_S,
    memory_bytes: int = limits.CONVERSION_MEMORY_BYTES,
) -> None:
    """Write the text of a file to another as UTF-8. Blocks, so call it from a thread.

    Raises:
        ConversionError: the file cannot be converted; the content of `target` is undefined.
        ConverterMissingError: the library for such files is not installed.
        UnavailableError: no process can be started now.
    """
    arguments = [f"--charset={charset}"] if charset else []
    arguments += [kind, str(source.absolute()), str(target.absolute())]
    try:
        result = run_confined(
            "engram.convert.worker",
            arguments,
            source=source,
            target=target,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
    except TimeoutError as exc:
        raise ConversionError(f"the conversion took longer than {seconds:g} s") from exc
    except OSError as exc:
        raise UnavailableError(
            f"the converter process could not be started: {exc.strerror}"
        ) from exc
    check_outcome(result)
    if target.is_symlink() or not target.is_file():
        raise ConversionError("the converter wrote no text; the document may be damaged")


def check_outcome(result: ProcessResult) -> None:
    """Raise the error that a converter reports. Its output is untrusted, as it may be compromised.

    Raises:
        ConversionError, ConverterMissingError: it did not succeed.
    """
    outcome = _parse_outcome(result.output) if result.status == 0 else {}
    message = str(outcome.get("message"))[:_MESSAGE_CHARACTERS_MAX]
    match outcome.get("code"):
        case "converted":
            return
        case ConverterMissingError.code:
            raise ConverterMissingError(message)
        case ConversionError.code:
            raise ConversionError(message)
        case _:
            reason = f"the converter exited with status {result.status}"
            raise ConversionError(f"{reason}; the document may be damaged or need too much memory")


def _parse_outcome(output: bytes) -> dict[str, Any]:
    try:
        outcome: Any = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", outcome) if isinstance(outcome, dict) else {}
