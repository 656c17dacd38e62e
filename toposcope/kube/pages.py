"""Reads collections in pages, bounded in bytes and in number, whatever the server answers.

It is apart from `toposcope.kube.listing`, because some programs do not load msgspec.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from toposcope.kube.client import Request
from toposcope.kube.errors import AnswerTooLargeError, UnreachableError

P = TypeVar("P")

PAGE_OBJECTS: Final = 500
"""Objects of one page, unless they are too large."""
MOST_PAGES: Final = 200_000
"""No etcd holds as many objects as pages of this many have."""
_SHRINK_FACTOR: Final = 4
"""A page whose answer is too large is asked for again with a fourth of its objects."""
_MOST_TOKEN_CHARACTERS: Final = 16 << 10
"""Characters; an API server's have some hundred, and must fit into a URL."""


def pages(
    request: Request, read: Callable[[Request], P], token_of: Callable[[P], Any], *, limit: int = 0
) -> Iterator[P]:
    """Each page of the collection that `request` is about.

    `read` sends a request and decodes its answer, `token_of` gives the page's `continue`, `limit`
    is how many objects a page has at first (0: `PAGE`). Pages become smaller where objects are
    large (one object of 1.5 MB is what etcd takes), and stay so. Raises KubeError: what `read`
    raises, and UnreachableError for a list that does not end, or a token that is none.
    """
    tokens = _Tokens(request.path)
    token = ""
    limit = limit or PAGE_OBJECTS
    while True:
        try:
            page = read(_page_request(request, token, limit))
        except AnswerTooLargeError:
            if limit == 1:
                raise
            limit = max(1, limit // _SHRINK_FACTOR)
            continue
        yield page
        token = tokens.following(token_of(page))
        if not token:
            return


def _page_request(request: Request, token: str, limit: int) -> Request:
    query = {**request.query, "limit": str(limit)}
    if token:
        query["continue"] = token
    return request._replace(query=query)


class _Tokens:
    """The `continue` tokens of one list, from its first page on."""

    def __init__(self, path: str) -> None:
        """`path` is the collection's, for messages."""
        self._path = path
        self._token_hashes: set[int] = set()

    def following(self, token: Any) -> str:
        """The token of the page after this one; empty where it was the last.

        Raises UnreachableError for a token that came before, for one that is no token, and for too
        many pages.
        """
        if not token:
            return ""
        if not isinstance(token, str) or len(token) > _MOST_TOKEN_CHARACTERS:
            raise self._error(
                "it answered with a continue token "
                f"that is not text of up to {_MOST_TOKEN_CHARACTERS:,} characters"
            )
        if hash(token) in self._token_hashes:
            count = len(self._token_hashes) + 1
            raise self._error(
                f"it answered with the same continue token twice, after {count} pages"
            )
        self._token_hashes.add(hash(token))
        if len(self._token_hashes) >= MOST_PAGES:
            raise self._error(f"its list has more than {MOST_PAGES:,} pages")
        return token

    def _error(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"GET {self._path}: the list does not end: {why}; "
            "look at the API server, or at a proxy in front of it"
        )
