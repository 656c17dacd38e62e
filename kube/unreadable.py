"""What decoding of JSON may raise; by itself, because whoever reads files needs no HTTP."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is no JSON, not UTF-8, or nested without end."""
