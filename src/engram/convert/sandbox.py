"""Convert a file to text in a process with the strictest sandbox that this machine supports."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from json import JSONDecodeError
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, cast

from engram import limits
from engram.convert import libraries
from engram.convert.confine import Policy, Sandbox
from engram.convert.kinds import Kind
from engram.errors import ConversionError, ConverterMissingError, UnavailableError

logger = logging.getLogger(__name__)

SANDBOXES: tuple[Sandbox, ...] = ("bubblewrap", "namespaces", "landlock")
"""Preferred first."""

KEPT_VARIABLES = (
    "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT",
)  # fmt: skip
"""Variables that an interpreter may need to start; none of them is a secret."""


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
    message = str(outcome.get("message"))[: limits.CONVERSION_MESSAGE_CHARACTERS_MAX]
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


class ProcessResult(NamedTuple):
    """Exit status and output of a confined process."""

    status: int
    output: bytes
    """Truncated after `CONVERSION_OUTPUT_BYTES_MAX`."""


def run_confined(
    module: str,
    arguments: Sequence[str],
    *,
    source: Path,
    target: Path,
    seconds: float = limits.CONVERSION_S,
    memory_bytes: int = limits.CONVERSION_MEMORY_BYTES,
    sandbox: Sandbox | None = None,
    module_paths: Sequence[Path] = (),
) -> ProcessResult:
    """Run `main` of a module in a process that can only read one file and write another; blocks.

    Args:
        sandbox: the strictest that this machine supports by default.
        module_paths: further directories that it may import modules from.

    Raises:
        TimeoutError: it took longer than `seconds` and was killed with its process group.
    """
    policy = Policy(
        sandbox=sandbox or best_sandbox(),
        readable=(*libraries.library_paths(), *map(str, module_paths)),
        source=str(source.absolute()),
        target=str(target.absolute()),
        memory_bytes=memory_bytes,
        cpu_s=math.ceil(seconds),
        file_bytes=limits.CONVERTED_BYTES_MAX,
        open_files=limits.CONVERSION_OPEN_FILES_MAX,
    )
    target.touch()
    command = [*_prefix(policy), sys.executable, "-P", "-m", "engram.convert.confine"]
    return _run([*command, policy.dump(), module, *arguments], module_paths, seconds=seconds)


class BestSandbox:
    """Finds the strictest sandbox of this machine on the first call, and caches it."""

    def __init__(self, sandboxes: Sequence[Sandbox] = SANDBOXES) -> None:
        self._sandboxes = sandboxes
        self._lock = threading.Lock()
        self._found: Sandbox | None = None

    def __call__(self) -> Sandbox:
        """Return the strictest sandbox; logs a warning if there is none."""
        with self._lock:
            if self._found is None:
                libraries.compile_libraries()
                self._found = next(filter(is_available, self._sandboxes), None) or _no_sandbox()
            return self._found


def _no_sandbox() -> Sandbox:
    logger.warning(
        "documents are converted without a sandbox: neither bubblewrap nor user namespaces nor "
        "Landlock are available. Converters have no secrets in their environment and limited "
        "resources, but can read all files of this user. On Linux, install bubblewrap."
    )
    return "none"


def is_available(sandbox: Sandbox) -> bool:
    """Return True if a process in this sandbox can import all installed converters."""
    if sandbox == "bubblewrap" and which("bwrap") is None:
        return False
    with TemporaryDirectory(prefix="engram-") as directory:
        source, target = Path(directory, "source"), Path(directory, "text")
        source.touch()
        try:
            result = run_confined(
                libraries.__name__,
                libraries.CONVERTERS,
                source=source,
                target=target,
                seconds=limits.SANDBOX_PROBE_S,
                sandbox=sandbox,
            )
            return json.loads(result.output) == libraries.importable(libraries.CONVERTERS)
        except (OSError, TimeoutError, JSONDecodeError, UnicodeDecodeError):
            return False


best_sandbox = BestSandbox()


def _prefix(policy: Policy) -> list[str]:
    """Return the command that runs another one in bubblewrap; empty for other sandboxes."""
    if policy.sandbox != "bubblewrap":
        return []
    command = [which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent"]
    command += ["--cap-drop", "ALL", "--chdir", "/"]
    for path in policy.readable:
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind", path, path]
    for path in (*libraries.program_paths(), policy.source):
        command += ["--ro-bind", path, path]
    return [*command, "--bind", policy.target, policy.target, "--remount-ro", "/", "--"]


def _run(command: Sequence[str], module_paths: Sequence[Path], *, seconds: float) -> ProcessResult:
    process = subprocess.Popen(  # noqa: S603 no shell, and absolute paths cannot pass for options
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(module_paths),
        cwd="/" if sys.platform != "win32" else None,
        close_fds=True,
        start_new_session=True,
    )
    timed_out = threading.Event()

    def stop() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        with process:
            output = _read(process)
    finally:
        timer.cancel()
        _kill(process)
    if timed_out.is_set():
        raise TimeoutError
    return ProcessResult(process.returncode, output)


def _read(process: subprocess.Popen[bytes]) -> bytes:
    """Return the output of a process, and kill it if that is too long."""
    if process.stdout is None:
        raise TypeError("the process was started without a pipe")
    output = process.stdout.read(limits.CONVERSION_OUTPUT_BYTES_MAX + 1)
    if len(output) > limits.CONVERSION_OUTPUT_BYTES_MAX:
        _kill(process)
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its process group."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(module_paths: Sequence[Path]) -> dict[str, str]:
    """Return the environment of a converter: an allow-list of variables."""
    given = os.environ  # noqa: TID251 no settings, only what is passed on
    environment = {name: given[name] for name in KEPT_VARIABLES if name in given}
    paths = [Path(each) for each in environment.pop("PYTHONPATH", "").split(os.pathsep) if each]
    if module_paths or paths:
        # Absolute, because the converter starts in another directory.
        absolute = (str(path.absolute()) for path in (*module_paths, *paths))
        environment["PYTHONPATH"] = os.pathsep.join(absolute)
    return environment
