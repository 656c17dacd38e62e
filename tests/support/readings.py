"""Documents with other values in some places, for tests that still import them from here."""

from tests.support.documents import Edits, edited

__all__ = ["Edits", "edited"]
