"""What can be wrong with JSON that msgspec decodes; apart from `kube.client`: the agent does without msgspec."""

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is no JSON, not UTF-8, or nested without end."""
