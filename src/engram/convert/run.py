"""Convert a file in a process of its own, and say what went wrong if it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from engram import limits
from engram.convert.kinds import Kind
from engram.convert.launch import Finished, run_confined
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
    """Write the text of a file to another as UTF-8; call it from a thread, for it waits.

    Raises:
        ConversionError: no text can be made of it; what `target` then holds is worth nothing.
        ConverterMissingError: what converts such files is not installed.
        UnavailableError: no process can be started now.
    """
    arguments = [f"--charset={charset}"] if charset else []
    arguments += [kind, str(source.absolute()), str(target.absolute())]
    try:
        finished = run_confined(
            "engram.convert.worker",
            arguments,
            source=source,
            target=target,
            seconds=seconds,
            memory_bytes=memory_bytes,
        )
    except TimeoutError as exc:
        raise ConversionError(f"making text of it took longer than {seconds:g} s") from exc
    except OSError as exc:
        raise UnavailableError(f"no converter can be started: {exc.strerror}") from exc
    check_outcome(finished)
    if target.is_symlink() or not target.is_file():
        raise ConversionError("the converter left no text: the document is damaged")


def check_outcome(finished: Finished) -> None:
    """Raise what a converter says went wrong; whoever took it over may have it say anything.

    Raises:
        ConversionError, ConverterMissingError: it did not succeed.
    """
    outcome = _read_outcome(finished.output) if finished.status == 0 else {}
    message = str(outcome.get("message"))[:_MESSAGE_CHARACTERS_MAX]
    match outcome.get("code"):
        case "converted":
            return
        case ConverterMissingError.code:
            raise ConverterMissingError(message)
        case ConversionError.code:
            raise ConversionError(message)
        case _:
            reason = f"the converter stopped with status {finished.status}"
            raise ConversionError(f"{reason}: the document is damaged, or needs too much memory")


def _read_outcome(output: bytes) -> dict[str, Any]:
    try:
        outcome: Any = json.loads(output)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", outcome) if isinstance(outcome, dict) else {}
