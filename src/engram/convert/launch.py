"""Start a process for a stranger's document, confined as tightly as this machine allows."""

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
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from engram import limits
from engram.convert import probe
from engram.convert.libraries import compile_libraries, library_paths, program_paths
from engram.convert.policy import Policy, Way

logger = logging.getLogger(__name__)

SANDBOXES: tuple[Way, ...] = ("bubblewrap", "namespaces", "landlock")
"""What keeps a process from files that are not its business, the best first."""

KEPT_VARIABLES = (
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "PYTHONHOME",
    "PYTHONPATH",
    "SYSTEMROOT",
)
"""What an interpreter may need in order to start; none of them is a secret."""

_PROBE_S = 30.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a confined process ended."""

    status: int
    output: bytes
    """What it printed, cut after `CONVERSION_OUTPUT_BYTES_MAX`."""


def run_confined(
    module: str,
    arguments: Sequence[str],
    *,
    source: Path,
    target: Path,
    seconds: float = limits.CONVERSION_S,
    memory_bytes: int = limits.CONVERSION_MEMORY_BYTES,
    way: Way | None = None,
    libraries: Sequence[Path] = (),
) -> Finished:
    """Run `main` of a module in a process that can read one file and write another; it waits.

    Args:
        way: how to confine it; the best that this machine allows, if left out.
        libraries: more directories of modules that it may read.

    Raises:
        TimeoutError: it took longer than `seconds`, and was killed with all that it started.
    """
    policy = Policy(
        way=way or best_way(),
        readable=(*library_paths(), *map(str, libraries)),
        source=str(source.absolute()),
        target=str(target.absolute()),
        memory_bytes=memory_bytes,
        cpu_s=math.ceil(seconds),
        file_bytes=limits.CONVERTED_BYTES_MAX,
        open_files=limits.CONVERSION_OPEN_FILES_MAX,
    )
    target.touch()
    command = [*_prefix(policy), sys.executable, "-P", "-m", "engram.convert.confine"]
    return _run([*command, policy.dump(), module, *arguments], libraries, seconds=seconds)


class BestWay:
    """Finds out once how this machine can confine a process."""

    def __init__(self, sandboxes: Sequence[Way] = SANDBOXES) -> None:
        self._sandboxes = sandboxes
        self._lock = threading.Lock()
        self._found: Way | None = None

    def __call__(self) -> Way:
        """Return the best way; a warning is logged where there is no sandbox."""
        with self._lock:
            if self._found is None:
                compile_libraries()
                self._found = next(filter(works, self._sandboxes), None) or _without_sandbox()
            return self._found


def _without_sandbox() -> Way:
    logger.warning(
        "documents are converted without a sandbox: neither bubblewrap nor user namespaces nor "
        "Landlock work here. Converters have no secrets in their environment and bounded "
        "resources, but can read what this user can. On Linux, install bubblewrap."
    )
    return "bounds"


def works(way: Way) -> bool:
    """Return True if a process confined in this way finds what it needs."""
    if way == "bubblewrap" and which("bwrap") is None:
        return False
    with TemporaryDirectory(prefix="engram-") as directory:
        source, target = Path(directory, "source"), Path(directory, "text")
        source.touch()
        try:
            finished = run_confined(
                probe.__name__,
                probe.CONVERTERS,
                source=source,
                target=target,
                seconds=_PROBE_S,
                way=way,
            )
            return json.loads(finished.output) == probe.found(probe.CONVERTERS)
        except (OSError, TimeoutError, JSONDecodeError, UnicodeDecodeError):
            return False


best_way = BestWay()


def _prefix(policy: Policy) -> list[str]:
    """Return what is put before a command for it to be confined from without."""
    if policy.way != "bubblewrap":
        return []
    command = [which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent"]
    command += ["--cap-drop", "ALL", "--chdir", "/"]
    for path in policy.readable:
        if Path(path).is_symlink():
            command += ["--symlink", str(Path(path).readlink()), path]
        else:
            command += ["--ro-bind", path, path]
    for path in (*program_paths(), policy.source):
        command += ["--ro-bind", path, path]
    return [*command, "--bind", policy.target, policy.target, "--remount-ro", "/", "--"]


def _run(command: Sequence[str], libraries: Sequence[Path], *, seconds: float) -> Finished:
    process = subprocess.Popen(  # noqa: S603 no shell, and paths that cannot pass for options
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=_environment(libraries),
        cwd="/" if sys.platform != "win32" else None,
        close_fds=True,
        start_new_session=True,
    )
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        _kill(process)

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        with process:
            output = _read(process)
    finally:
        timer.cancel()
        _kill(process)
    if is_late.is_set():
        raise TimeoutError
    return Finished(process.returncode, output)


def _read(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a process prints; one that prints too much is killed."""
    if process.stdout is None:
        raise TypeError("a process without a pipe")
    output = process.stdout.read(limits.CONVERSION_OUTPUT_BYTES_MAX + 1)
    if len(output) > limits.CONVERSION_OUTPUT_BYTES_MAX:
        _kill(process)
    return output


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and whatever it started that is still in its group."""
    if sys.platform == "win32":
        process.kill()
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _environment(libraries: Sequence[Path]) -> dict[str, str]:
    """Return the few variables that a converter is given."""
    given = os.environ  # noqa: TID251 no settings, but what this process was started with
    environment = {name: given[name] for name in KEPT_VARIABLES if name in given}
    paths = [Path(each) for each in environment.pop("PYTHONPATH", "").split(os.pathsep) if each]
    if libraries or paths:
        # Absolute, because the converter starts in another directory.
        absolute = (str(path.absolute()) for path in (*libraries, *paths))
        environment["PYTHONPATH"] = os.pathsep.join(absolute)
    return environment
