"""The configuration file over time.

Read again when it changes, but not while it is being written.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toposcope.hierarchy.catalogue import BUILT_IN

if TYPE_CHECKING:
    from toposcope.hierarchy.controller_config import Config

log = logging.getLogger(__name__)

_MOST_BYTES: Final = 1 << 20
"""What a ConfigMap can hold."""


@dataclass(frozen=True, slots=True)
class _Version:
    """Tells whether a file changed, without reading it."""

    target: str
    """The file behind all links: the kubelet replaces a mounted ConfigMap by changing one
    symlink."""
    inode: int
    size: int
    modified: int


_ABSENT: Final = _Version("", 0, 0, 0)


class ConfigFile:
    """A file that `look` checks for changes.

    While it is missing, the built-in catalogue applies.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _ABSENT
        self._pending: _Version | None = None
        self._problems: tuple[str, ...] = ()
        self._has_looked = False
        self._refused = ""
        self.catalogue = BUILT_IN
        """The catalogue in force."""

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the text in use, and of a newer one that was rejected; one sentence each."""
        return (*self._problems, *([self._refused] if self._refused else ()))

    def look(self) -> bool:
        """Load the file if it changed; whether the catalogue changed.

        Call it about once a minute. A new file, or one replaced by a symlink, is read at once. A
        file that was changed in place or removed must look the same twice in a row: in between it
        may be half written. An unusable file changes nothing.
        """
        try:
            version = self._stat()
        except OSError as error:
            return self._refuse(f"{self._path}: cannot be read: {error.strerror}")
        if version == self._version:
            if not self._has_looked:
                log.info("%s does not exist; using the built-in catalogue only", self._path)
            self._pending, self._has_looked = None, True
            return False
        if version.target in {"", self._version.target} and self._pending != version:
            self._pending = version
            return False
        self._version, self._pending, self._has_looked = version, None, True
        return self._take()

    def _stat(self) -> _Version:
        """Raises OSError, but not for a file that is not there."""
        target = os.path.realpath(self._path)
        try:
            status = os.stat(target)  # noqa: PTH116 - beside os.path.realpath, of the very same file
        except (FileNotFoundError, NotADirectoryError):
            return _ABSENT
        return _Version(target, status.st_ino, status.st_size, status.st_mtime_ns)

    def _take(self) -> bool:
        before = self.catalogue
        if self._version is _ABSENT:
            log.warning("%s was removed; using the built-in catalogue", self._path)
            self.catalogue, self._problems = BUILT_IN, ()
        else:
            try:
                config = self._read()
            except ValueError as error:  # malformed, or not UTF-8
                return self._refuse(str(error))
            except OSError as error:
                return self._refuse(f"{self._path}: cannot be read: {error.strerror}")
            for problem in config.problems:
                log.error("%s; the other entries apply", problem)
            log.info("loaded %s", self._path)
            self.catalogue, self._problems = config.catalogue, config.problems
        self._refused = ""
        return self.catalogue != before

    def _read(self) -> "Config":
        """Raises ValueError and OSError."""
        from toposcope.hierarchy.controller_config import UnreadableError, read_config  # noqa: PLC0415 - only a file is worth YAML's memory

        if self._version.size > _MOST_BYTES:
            raise UnreadableError(
                f"{self._path}: has {self._version.size} bytes; a ConfigMap holds {_MOST_BYTES}"
            )
        return read_config(Path(self._version.target).read_bytes(), str(self._path))

    def _refuse(self, problem: str) -> bool:
        if problem != self._refused:
            log.error("%s; keeping the previous configuration", problem)
        self._refused = problem
        return False
