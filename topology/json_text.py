"""JSON as annotations, requests, answers and log lines carry it.

The standard library's own: what goes through here is small, and a faster package costs every GPU node 3 MB.
"""

import json
from typing import Any


def compact(document: Any) -> str:
    """A document of dicts, lists, strings, numbers, booleans and None without spaces; not ASCII stands as it is."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def parse(text: str | bytes) -> Any:
    """The document in a text. Raises ValueError and, for one that is nested without end, RecursionError.

    Refuses an escaped half of a surrogate pair, which json lets pass: it is no text and could not be sent on.
    """
    if isinstance(text, bytes):
        text = str(text, "utf-8")
    document = json.loads(text)
    if "\\ud" in text or "\\uD" in text:
        compact(document).encode()
    return document
