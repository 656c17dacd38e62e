"""Time as tests want it."""

from datetime import UTC, datetime

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
