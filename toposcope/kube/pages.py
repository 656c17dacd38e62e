"""The pages of a collection: bounded in bytes and in number, whatever the server answers.

Apart from `toposcope.kube.listing`, because some programs do without msgspec.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from toposcope.kube.client import Request
from toposcope.kube.errors import AnswerTooLargeError, UnreachableError

P = TypeVar("P")

PAGE: Final = 500
"""Objects of one page, unless they are too large."""
MOST_PAGES: Final = 200_000
"""No etcd holds as many objects as pages of this many have."""
_SHRINK: Final = 4
"""A page whose answer is too large is asked for again with a fourth of its objects."""


def pages(
    request: Request, read: Callable[[Request], P], token_of: Callable[[P], str], *, limit: int = PAGE
) -> Iterator[P]:
    """Each page of the collection that `request` is about.

    `read` sends a request and decodes its answer, `token_of` gives the page's `continue`. Pages become smaller where
    objects are large (one object of 1.5 MB is what etcd takes), and stay so. Raises KubeError: what `read` raises, and
    UnreachableError for a server that gives a page token twice, or has more pages than a cluster can fill.
    """
    token = ""
    seen: set[int] = set()
    for _ in range(MOST_PAGES):
        try:
            page = read(_page_request(request, token, limit))
        except AnswerTooLargeError:
            if limit == 1:
                raise
            limit = max(1, limit // _SHRINK)
            continue
        yield page
        token = token_of(page)
        if not token:
            return
        if hash(token) in seen:
            raise UnreachableError(f"the list of {request.path} never ends: the server gives the same page token twice")
        seen.add(hash(token))
    raise UnreachableError(f"the list of {request.path} has more than {MOST_PAGES:,} pages: no API server has so many")


def _page_request(request: Request, token: str, limit: int) -> Request:
    query = {**request.query, "limit": str(limit)}
    if token:
        query["continue"] = token
    return request._replace(query=query)
