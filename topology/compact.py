"""JSON without spaces, as annotations, requests and log lines carry it.

The standard library's own: what is written here is small, and a faster package costs every GPU node 3 MB.
"""

import json
from typing import Any


def compact(document: Any) -> str:
    """A document of dicts, lists, strings, numbers, booleans and None as JSON; what is not ASCII stands as it is."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
