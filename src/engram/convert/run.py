"""Convert a file in a process of its own, and say what went wrong if it did."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from engram import limits
from engram.convert.kinds import Kind
from engram.errors import ConversionError, ConverterMissingError


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
    """
    bounds = [f"--memory-bytes={memory_bytes}", f"--seconds={math.ceil(seconds)}"]
    charsets = [f"--charset={charset}"] if charset else []
    paths = [str(source.absolute()), str(target.absolute())]
    command = [sys.executable, "-P", "-m", "engram.convert", *bounds, *charsets, kind, *paths]
    try:
        finished = subprocess.run(  # noqa: S603 no shell, and paths that cannot pass for options
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise ConversionError(f"making text of it took longer than {seconds:g} s") from exc
    _check(finished)


def _check(finished: subprocess.CompletedProcess[bytes]) -> None:
    outcome = _outcome(finished.stdout) if finished.returncode == 0 else {}
    match outcome.get("code"):
        case "converted":
            return
        case ConverterMissingError.code:
            raise ConverterMissingError(outcome.get("message"))
        case ConversionError.code:
            raise ConversionError(outcome.get("message"))
        case _:
            reason = f"the converter stopped with status {finished.returncode}"
            raise ConversionError(f"{reason}: the document is damaged, or needs too much memory")


def _outcome(output: bytes) -> dict[str, Any]:
    try:
        return json.loads(output)
    except (JSONDecodeError, UnicodeDecodeError):
        return {}
