"""The one rule for lists in pages, whoever reads them: a server may not keep a reader for ever.

Apart from `listing`, because programs that do without msgspec list too.
"""

from typing import Any, Final

from toposcope.kube.errors import UnreachableError

MOST_PAGES: Final = 20_000
"""Ten million objects in pages of 500: no cluster has as many of one kind."""
_LONGEST_TOKEN: Final = 16 << 10
"""Characters; an API server's have some hundred, and must fit into a URL."""


class Pages:
    """Follows the `continue` tokens of one list, from its first page on."""

    def __init__(self, path: str) -> None:
        """`path` is the collection's, for messages."""
        self._path = path
        self._seen: set[int] = set()
        self.count = 0
        """Pages read."""

    def following(self, token: Any) -> str:
        """The token of the page after this one; empty where it was the last.

        Raises UnreachableError for a token that came before, for one that is no token, and for too many pages.
        """
        self.count += 1
        if not token:
            return ""
        if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
            raise self._error(
                f"it answered with a continue token that is not text of up to {_LONGEST_TOKEN:,} characters"
            )
        if hash(token) in self._seen:
            raise self._error(f"it answered with the same continue token twice, after {self.count} pages")
        if self.count >= MOST_PAGES:
            raise self._error(f"its list has more than {MOST_PAGES:,} pages")
        self._seen.add(hash(token))
        return token

    def _error(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"GET {self._path}: the list does not end: {why}; look at the API server, or at a proxy in front of it"
        )
