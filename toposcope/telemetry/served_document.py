"""A document that is served from a file, as last read in full."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from toposcope.text import parse

log = logging.getLogger(__name__)

LARGEST: Final = 256 << 10
"""Bytes; a node's document has about 20 KiB."""


@dataclass(frozen=True, slots=True)
class ServedDocument:
    """One version of the document."""

    body: bytes
    etag: str
    """In its quotes, as in the header."""


def _version_of(body: bytes) -> ServedDocument:
    digest = hashlib.sha256(body).hexdigest()
    return ServedDocument(body, f'"{digest[:32]}"')


class DocumentFile:
    """Reads the file when it is another one, by inode, size and time.

    The last good document stays where the file is corrupt or gone.
    """

    def __init__(self, file: Path) -> None:
        self.path = file
        self._seen: tuple[int, int, int] | None = None
        self._last_problem = ""
        self.document: ServedDocument | None = None
        """None: there was none yet."""

    def look(self) -> bool:
        """Read the file if it is another one; whether there is another document.

        Never raises OSError.
        """
        try:
            status = self.path.stat()
            seen = (status.st_ino, status.st_mtime_ns, status.st_size)
            if seen == self._seen:
                return False
            body = self._read()
        except FileNotFoundError:
            self._seen = None
            if self.document:
                self._problem("is gone")
            return False
        except (OSError, ValueError, RecursionError) as error:
            self._problem(f"cannot be read: {error}")
            return False
        self._seen = seen
        self._good()
        document = _version_of(body)
        if document == self.document:
            return False
        self.document = document
        return True

    def _read(self) -> bytes:
        """The content of the file. Raises OSError, ValueError and RecursionError."""
        with self.path.open("rb") as file:
            body = file.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise ValueError(f"it has more than {LARGEST >> 10} KiB")
        document = parse(body)
        if not isinstance(document, dict) or document.get("version") != 1:
            raise ValueError("it is no topology document of version 1")
        return body

    def _problem(self, what: str) -> None:
        """Log a problem once."""
        if what == self._last_problem:
            return
        self._last_problem = what
        kept = "the last document is served" if self.document else "there is no document yet"
        log.warning("%s %s; %s", self.path, what, kept)

    def _good(self) -> None:
        if self._last_problem:
            log.info("%s is good again", self.path)
        self._last_problem = ""
