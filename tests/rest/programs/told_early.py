"""Serves, and is told to stop while a callback runs that loses whatever is raised in it."""

from __future__ import annotations

import signal
import sys
import weakref
from pathlib import Path
from typing import Any

from engram.http import server
from engram.http.asgi import Application
from engram.settings import Settings


class Module:
    """Something that is let go of, as import does with the locks of modules."""


def create_app(settings: Settings, **options: Any) -> Application:
    """Do what the server does, after the signal."""
    module = Module()
    reference = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGTERM))
    del module
    assert reference() is None
    return original(settings, **options)


original, server.create_app = server.create_app, create_app
server.run(Settings(home=Path(sys.argv[1]), port=0))
