"""A file layer for SQLite that fails, fills up and loses power as a seeded generator decides.

It is registered as the default VFS of the very library that the module `sqlite3` uses. Each file is
a real one in a directory, which SQLite's own VFS reads, writes and locks; on the way this layer remembers what
was written and not yet synced, lets other simulated threads run, and injects faults.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import gc
import sqlite3
import sys
import weakref
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.simulation.scheduler import SimulatedProcess, World

SECTOR_BYTES = 512
"""What a disk writes wholly or not at all."""

_FILES_OF_SQLITE = (".db", "-wal", "-shm")
_CONTENTS_KEPT = 8

_OK = 0
_SHM_UNLOCK = 1

_OPEN_MAIN_DB = 0x00000100
_OPEN_WAL = 0x00080000

_Close = CFUNCTYPE(c_int, c_void_p)
_Read = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)
_ShmMap = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, POINTER(c_void_p))
_ShmLock = CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int)


class _Methods(ctypes.Structure):
    _fields_: ClassVar = [
        ("iVersion", c_int),
        ("xClose", _Close),
        ("xRead", _Read),
        ("xWrite", _Read),
        ("xTruncate", _Truncate),
        ("xSync", _Sync),
        ("xFileSize", c_void_p),
        ("xLock", _Sync),
        ("xUnlock", c_void_p),
        ("xCheckReservedLock", c_void_p),
        ("xFileControl", c_void_p),
        ("xSectorSize", c_void_p),
        ("xDeviceCharacteristics", c_void_p),
        ("xShmMap", _ShmMap),
        ("xShmLock", _ShmLock),
        ("xShmBarrier", c_void_p),
        ("xShmUnmap", _Sync),
        ("xFetch", c_void_p),
        ("xUnfetch", c_void_p),
    ]


_Open = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, POINTER(c_int))
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Randomness = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
_Sleep = CFUNCTYPE(c_int, c_void_p, c_int)
_CurrentTime = CFUNCTYPE(c_int, c_void_p, POINTER(c_double))
_CurrentTimeInt64 = CFUNCTYPE(c_int, c_void_p, POINTER(c_int64))


class _Vfs(ctypes.Structure):
    _fields_: ClassVar = [
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", _Open),
        ("xDelete", _Delete),
        ("xAccess", c_void_p),
        ("xFullPathname", c_void_p),
        ("xDlOpen", c_void_p),
        ("xDlError", c_void_p),
        ("xDlSym", c_void_p),
        ("xDlClose", c_void_p),
        ("xRandomness", _Randomness),
        ("xSleep", _Sleep),
        ("xCurrentTime", _CurrentTime),
        ("xGetLastError", c_void_p),
        ("xCurrentTimeInt64", _CurrentTimeInt64),
        ("xSetSystemCall", c_void_p),
        ("xGetSystemCall", c_void_p),
        ("xNextSystemCall", c_void_p),
    ]


def load_library() -> ctypes.CDLL:
    """Return the SQLite library that the module `sqlite3` is linked to.

    Raises:
        RuntimeError: its functions cannot be reached, so that nothing could be simulated.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    try:
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        library.sqlite3_vfs_register.argtypes = [POINTER(_Vfs), c_int]
        library.sqlite3_libversion.restype = c_char_p
    except AttributeError as exc:
        raise RuntimeError(f"{_sqlite3.__file__} does not show SQLite's functions") from exc
    if library.sqlite3_libversion().decode() != sqlite3.sqlite_version:
        raise RuntimeError("another SQLite was found than the one that `sqlite3` uses")
    return library


@dataclass(slots=True)
class FaultRates:
    """The probability of a fault for each call of the file layer."""

    preempt: float = 0.02
    """That another thread runs before the call."""
    read: float = 0.0
    write: float = 0.0
    sync: float = 0.0
    truncate: float = 0.0
    memory: float = 0.0
    """That a call fails for want of memory."""


@dataclass(slots=True)
class _Image:
    """A file as a power loss would leave it, and what was written since."""

    durable: bytearray
    unsynced: list[tuple[int, bytes] | int] = field(default_factory=list[Any])
    """Writes with their offsets, and sizes that the file was truncated to."""

    def sync(self) -> None:
        for operation in self.unsynced:
            _apply(self.durable, operation)
        self.unsynced.clear()


def _apply(content: bytearray, operation: tuple[int, bytes] | int) -> None:
    if isinstance(operation, int):
        del content[operation:]
        return
    offset, data = operation
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


@dataclass(slots=True)
class _Handle:
    """An open file of a process."""

    process: SimulatedProcess
    path: str
    real: _Methods
    shared: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Address and size of each mapped region of the shared memory."""


class SimulatedDisk:
    """The files of a world, and the faults that meet those who use them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rates = FaultRates()
        self.is_full = False
        self.lies_about_sync = False
        """Whether a sync returns without having written anything: a planted bug."""
        self.faults = 0
        self._random = world.random
        self._images: dict[str, _Image] = {}
        self._deleted: dict[str, _Image] = {}
        """Logs that were unlinked; a directory that was not synced may still name them."""
        self._others: dict[Path, deque[bytes]] = {}
        """The latest contents of files that are written without this layer, and perhaps not synced."""
        self._handles: dict[int, _Handle] = {}
        self._connections: dict[SimulatedProcess, list[weakref.ref[sqlite3.Connection]]] = {}
        self._library = load_library()
        self._real = self._library.sqlite3_vfs_find(None)
        self._methods: dict[int, _Methods] = {}
        """Those of this layer by the address of the real ones: logs have others than databases."""
        self._vfs = self._build_vfs()

    @contextmanager
    def installed(self) -> Generator[None]:
        """Let every connection that is opened in the block use this layer."""
        # SQLite's own generator starts anew, from the randomness of this layer.
        self._library.sqlite3_randomness(0, None)
        self._library.sqlite3_vfs_register(byref(self._vfs), 1)
        _installed.append(self)
        before, sys.unraisablehook = sys.unraisablehook, self._record
        try:
            yield
        finally:
            sys.unraisablehook = before
            _installed.remove(self)
            gc.collect()
            self._library.sqlite3_vfs_unregister(byref(self._vfs))
            self._library.sqlite3_vfs_register(self._real, 1)
            self._library.sqlite3_randomness(0, None)
            assert not self._handles, "files are still open"

    def _record(self, unraisable: sys.UnraisableHookArgs) -> None:
        """End the run if this layer fails; SQLite is told of success then, and would go on."""
        if "ctypes callback" in (unraisable.err_msg or ""):
            failure = {"message": "the file layer failed", "exception": unraisable.exc_value}
            self.world.unhandled.append(failure)

    def note(self, connection: sqlite3.Connection) -> None:
        """Remember whose a new connection is."""
        if self.world.current is not None:
            known = self._connections.setdefault(self.world.current.process, [])
            known.append(weakref.ref(connection))

    def kill(self, process: SimulatedProcess) -> None:
        """Kill a process; what its unwinding changes in the shared memory is undone."""
        regions = {
            address: ctypes.string_at(address, size)
            for handle in self._handles.values()
            for address, size in handle.shared.values()
        }
        process.kill()
        for reference in self._connections.pop(process, ()):
            if (connection := reference()) is not None:
                connection.close()
        gc.collect()  # cursors that were not read to the end
        left_open = [h.path for h in self._handles.values() if h.process is process]
        assert not left_open, f"{left_open} are still open"
        left = {a for handle in self._handles.values() for a, _ in handle.shared.values()}
        for address, content in regions.items():
            if address in left:
                ctypes.memmove(address, content, len(content))

    def lose_power(self) -> None:
        """Leave of every file what was synced, and of the rest what the generator decides."""
        assert not self._handles, "a process is still alive"
        for path, image in self._deleted.items():
            if path not in self._images and self._random.random() < 0.5:
                self._images[path] = image
        self._deleted.clear()
        for path, contents in sorted(self._others.items()):
            if path.exists() and self._random.random() < 0.5:
                path.write_bytes(self._random.choice(contents))
        for path, image in self._images.items():
            self._settle(image)
            Path(path).write_bytes(image.durable)
            Path(path + "-shm").unlink(missing_ok=True)

    def _settle(self, image: _Image) -> None:
        """Keep none, all, the first, some, or parts of the writes that were not synced."""
        chosen = self._random
        kept = chosen.choice(("none", "all", "first", "some", "torn"))
        count = chosen.randint(0, len(image.unsynced))
        for number, operation in enumerate(image.unsynced):
            if kept == "none" or (kept == "first" and number >= count):
                break
            if kept in ("some", "torn") and chosen.random() < 0.5:
                continue
            if kept == "torn" and not isinstance(operation, int):
                for part in _sectors(*operation):
                    if chosen.random() < 0.5:
                        _apply(image.durable, part)
            else:
                _apply(image.durable, operation)
        image.unsynced.clear()

    # --- the file system -------------------------------------------------------------------------

    def _build_vfs(self) -> _Vfs:
        vfs = _Vfs.from_buffer_copy(self._real.contents)
        vfs.zName = b"simulated"
        vfs.pNext = None
        vfs.xOpen = _Open(self._open)
        vfs.xDelete = _Delete(self._delete)
        vfs.xRandomness = _Randomness(self._randomness)
        vfs.xSleep = _Sleep(self._sleep)
        vfs.xCurrentTime = _CurrentTime(self._current_time)
        vfs.xCurrentTimeInt64 = _CurrentTimeInt64(self._current_time_ms)
        return vfs

    def _open(self, _: int, name: int, file: int, flags: int, out: Any) -> int:
        real = self._real
        status: int = real.contents.xOpen(cast(real, c_void_p), name, file, flags, out)
        if status != _OK or not flags & (_OPEN_MAIN_DB | _OPEN_WAL):
            return status
        path = ctypes.string_at(name).decode()
        current = self.world.current
        assert current is not None, "a file is opened by a thread of a process"
        if path not in self._images:
            self._images[path] = _Image(bytearray(Path(path).read_bytes()))
        methods = cast(file, POINTER(c_void_p))
        address = methods[0]
        original = cast(address, POINTER(_Methods)).contents
        self._handles[file] = _Handle(current.process, path, original)
        if address not in self._methods:
            self._methods[address] = self._replaced(original)
        methods[0] = ctypes.addressof(self._methods[address])
        return status

    def _replaced(self, original: _Methods) -> _Methods:
        """Return the methods of a file with those of this layer in place of some."""
        mine = _Methods.from_buffer_copy(original)
        mine.xClose = _Close(self._close)
        mine.xRead = _Read(self._read)
        mine.xWrite = _Read(self._write)
        mine.xTruncate = _Truncate(self._truncate)
        mine.xSync = _Sync(self._sync)
        mine.xLock = _Sync(self._lock)
        mine.xShmMap = _ShmMap(self._map)
        mine.xShmLock = _ShmLock(self._lock_shared)
        mine.xShmUnmap = _Sync(self._unmap)
        return mine

    def _delete(self, _: int, name: bytes, sync_directory: int) -> int:
        current = self.world.current
        if current is not None and not current.process.is_alive:
            return sqlite3.SQLITE_IOERR_DELETE
        path = name.decode()
        real = self._real
        status: int = real.contents.xDelete(cast(real, c_void_p), name, sync_directory)
        if status == _OK and (image := self._images.pop(path, None)) and not sync_directory:
            self._deleted[path] = image
        return status

    def _randomness(self, _: int, size: int, target: int) -> int:
        ctypes.memmove(target, self._random.randbytes(size), size)
        return size

    def _sleep(self, _: int, microseconds: int) -> int:
        current = self.world.current
        if current is not None and current.process.is_alive:
            with _in_file_layer(current):
                current.sleep(microseconds / 1e6)
        return microseconds

    def _current_time(self, _: int, target: Any) -> int:
        target[0] = 2_461_000.0 + self.world.now_s / 86_400
        return _OK

    def _current_time_ms(self, _: int, target: Any) -> int:
        target[0] = int((2_461_000.0 * 86_400 + self.world.now_s) * 1_000)
        return _OK

    # --- open files ------------------------------------------------------------------------------

    def _close(self, file: int) -> int:
        return self._handles.pop(file).real.xClose(file)

    def _read(self, file: int, target: int, size: int, offset: int) -> int:
        if (failure := self._fail(file, self.rates.read, sqlite3.SQLITE_IOERR_READ)) is not None:
            return failure
        return self._handles[file].real.xRead(file, target, size, offset)

    def _write(self, file: int, source: int, size: int, offset: int) -> int:
        handle = self._handles[file]
        self._give_way(handle)
        rates = self.rates
        failure = self._fail(file, rates.write, sqlite3.SQLITE_IOERR_WRITE)
        if failure is None and self.is_full:
            image = self._images[handle.path]
            if offset + size > _size(image):
                failure = sqlite3.SQLITE_FULL
        if failure is not None:
            if not handle.process.is_alive:
                return failure
            self.faults += 1
            size = self._random.randrange(size) // SECTOR_BYTES * SECTOR_BYTES
            if not size or failure == sqlite3.SQLITE_FULL:
                return failure
        self._images[handle.path].unsynced.append((offset, ctypes.string_at(source, size)))
        status = handle.real.xWrite(file, source, size, offset)
        return status if failure is None else failure

    def _truncate(self, file: int, size: int) -> int:
        failure = self._fail(file, self.rates.truncate, sqlite3.SQLITE_IOERR_TRUNCATE)
        if failure is not None:
            return failure
        self._images[self._handles[file].path].unsynced.append(size)
        return self._handles[file].real.xTruncate(file, size)

    def _sync(self, file: int, _: int) -> int:
        handle = self._handles[file]
        self._give_way(handle)
        image = self._images[handle.path]
        failure = self._fail(file, self.rates.sync, sqlite3.SQLITE_IOERR_FSYNC)
        if failure is not None:
            return failure
        if not self.lies_about_sync:
            image.sync()
            self._remember_others(Path(handle.path).parent)
        return _OK

    def _remember_others(self, folder: Path) -> None:
        """Remember what files that are not SQLite's have in them, whenever one that is was synced."""
        for path in folder.iterdir():
            if path.is_file() and not path.name.endswith(_FILES_OF_SQLITE):
                contents = self._others.setdefault(path, deque(maxlen=_CONTENTS_KEPT))
                if (content := path.read_bytes()) not in contents:
                    contents.append(content)

    def _lock(self, file: int, level: int) -> int:
        handle = self._handles[file]
        self._give_way(handle)
        if not handle.process.is_alive:
            return sqlite3.SQLITE_IOERR_LOCK
        return handle.real.xLock(file, level)

    def _map(self, file: int, page: int, size: int, extend: int, target: Any) -> int:
        handle = self._handles[file]
        if not handle.process.is_alive:
            return sqlite3.SQLITE_IOERR_SHMMAP
        status = handle.real.xShmMap(file, page, size, extend, target)
        if status == _OK and target[0]:
            handle.shared[page] = (target[0], size)
        return status

    def _lock_shared(self, file: int, offset: int, count: int, flags: int) -> int:
        handle = self._handles[file]
        if not flags & _SHM_UNLOCK:
            self._give_way(handle)
            if not handle.process.is_alive:
                return sqlite3.SQLITE_IOERR_SHMLOCK
        return handle.real.xShmLock(file, offset, count, flags)

    def _unmap(self, file: int, delete: int) -> int:
        handle = self._handles[file]
        handle.shared.clear()
        return handle.real.xShmUnmap(file, delete if handle.process.is_alive else 0)

    def _give_way(self, handle: _Handle) -> None:
        """Let another thread run, if the generator says so."""
        current = self.world.current
        if (
            current is not None
            and handle.process.is_alive
            and self._random.random() < self.rates.preempt
        ):
            with _in_file_layer(current):
                current.give_way()

    def _fail(self, file: int, rate: float, code: int) -> int | None:
        """Return the code of a failure, if there is one."""
        if not self._handles[file].process.is_alive:
            return code
        rates = self.rates
        if not rate and not rates.memory:
            return None
        chance = self._random.random()
        if chance < rate:
            self.faults += 1
            return code
        if chance < rate + rates.memory:
            self.faults += 1
            return sqlite3.SQLITE_IOERR_NOMEM
        return None


_installed: list[SimulatedDisk] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "sqlite3.connect/handle" and _installed:
        _installed[-1].note(arguments[0])


# The only way to learn of every connection without another hook in the store.
sys.addaudithook(_audit)


def _size(image: _Image) -> int:
    size = len(image.durable)
    for operation in image.unsynced:
        size = (
            operation if isinstance(operation, int) else max(size, operation[0] + len(operation[1]))
        )
    return size


def _sectors(offset: int, data: bytes) -> list[tuple[int, bytes]]:
    """Divide a write at the boundaries of sectors."""
    first = SECTOR_BYTES - offset % SECTOR_BYTES
    starts = [0, *range(first, len(data), SECTOR_BYTES)]
    return [
        (offset + start, data[start:end])
        for start, end in zip(starts, [*starts[1:], len(data)], strict=True)
    ]


@contextmanager
def _in_file_layer(fiber: Any) -> Generator[None]:
    fiber.in_file_layer = True
    try:
        yield
    finally:
        fiber.in_file_layer = False
