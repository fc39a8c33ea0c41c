"""A service on an empty store, and what imports files to it."""

from __future__ import annotations

from tests.service.conftest import clock, principal, service
from tests.sources.imports import importer

__all__ = ["clock", "importer", "principal", "service"]
"""Fixtures of other modules."""
