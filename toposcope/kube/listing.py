"""A whole collection in pages, for callers that do not watch it.

It is apart from `toposcope.kube.client`, because the agent does not load msgspec.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from toposcope.kube.client import METADATA_LIST, Caller, Request
from toposcope.kube.errors import ResourceExpiredError
from toposcope.kube.pages import pages

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that is not JSON, not UTF-8, or nested too deeply."""

T = TypeVar("T")
_MOST_TRIES: Final = 3


def once_more(read: Callable[[], T]) -> T:
    """What `read` returns of a collection; a list that outlives its page tokens begins again.

    Raises KubeError.
    """
    for _ in range(_MOST_TRIES - 1):
        with suppress(ResourceExpiredError):
            return read()
    return read()


def everything(
    client: Caller,
    path: str,
    *,
    selector: str = "",
    fields: str = "",
    is_metadata_only: bool = False,
    progress: Callable[[int], object] = lambda _count: None,
) -> list[dict[str, Any]]:
    """All objects of a collection, with selectors for labels and fields those that match.

    `progress` counts them. A list that outlives its page tokens begins again. Raises KubeError; its
    ApiError is `not_found` where the kind is not served.
    """
    selected = {
        name: text
        for name, text in (("labelSelector", selector), ("fieldSelector", fields))
        if text
    }
    request = Request(
        "GET", path, selected, accept=METADATA_LIST if is_metadata_only else "application/json"
    )

    def read_all() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for page in pages(request, client.call, token_of):
            # null where a kube-apiserver has the metadata of no object to tell
            items += page.get("items") or ()
            progress(len(items))
        return items

    return once_more(read_all)


def token_of(page: Mapping[str, Any]) -> str:
    """The token of the page after this one; empty after the last."""
    return page["metadata"].get("continue") or ""
