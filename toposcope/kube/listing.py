"""A whole collection in pages, for callers that do not watch it.

Apart from `toposcope.kube.client`, because the agent does without msgspec.
"""

from typing import Any, Final

import msgspec

from toposcope.kube.client import METADATA_LIST, Caller, Request
from toposcope.kube.errors import ResourceExpiredError

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is not JSON, not UTF-8, or nested too deeply."""


_PAGE: Final = 500
_TRIES: Final = 3


def everything(client: Caller, path: str, *, selector: str = "", metadata_only: bool = False) -> list[dict[str, Any]]:
    """All objects of a collection, with a label selector those that match it.

    A list that outlives its page tokens begins again. Raises KubeError; its ApiError is `not_found` where the kind is
    not served.
    """
    for _ in range(_TRIES - 1):
        try:
            return _pages(client, path, selector, metadata_only=metadata_only)
        except ResourceExpiredError:
            continue
    return _pages(client, path, selector, metadata_only=metadata_only)


def _pages(client: Caller, path: str, selector: str, *, metadata_only: bool) -> list[dict[str, Any]]:
    query = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
    accept = METADATA_LIST if metadata_only else "application/json"
    items: list[dict[str, Any]] = []
    while True:
        page = client.call(Request("GET", path, query, accept=accept))
        items += page.get("items") or ()  # null where a kube-apiserver has the metadata of no object to tell
        token = page["metadata"].get("continue")
        if not token:
            return items
        query["continue"] = token
