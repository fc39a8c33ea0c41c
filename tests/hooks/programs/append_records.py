"""Append numbered records to a spool, and print each number once its record is written."""

from __future__ import annotations

import itertools
import os
import sys

from engram.hooks.spool import append

home, name = sys.argv[1:]
for number in itertools.count():
    append(home, {"name": name, "number": number})
    os.write(1, b"%d\n" % number)
