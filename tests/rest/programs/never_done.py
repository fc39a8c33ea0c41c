"""Serves, is told to stop, and has a thread that never ends."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from engram import limits
from engram.http import server
from engram.settings import Settings

limits.STOP_S = 1
threading.Thread(target=threading.Event().wait).start()
threading.Timer(0.1, signal.raise_signal, [signal.SIGTERM]).start()
server.run(Settings(home=Path(sys.argv[1]), port=0))
