"""Drain a spool again and again: write each record to a file, and only then remove it from the spool."""

from __future__ import annotations

import os
import sys

from engram.hooks.spool import Drain

home, target = sys.argv[1:]
output = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
while True:
    drain = Drain(home)
    try:
        if drain.open():
            for record in drain.take() or ():
                os.write(output, f"{record['name']} {record['number']}\n".encode())
            drain.finish()
    except (BlockingIOError, FileNotFoundError):
        pass  # A hook is appending, or there was nothing to take.
    finally:
        drain.close()
