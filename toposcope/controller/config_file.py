"""The configuration file over time: read anew when it changes, and never taken from a moment of being written."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toposcope.topology.catalogue import BUILT_IN

if TYPE_CHECKING:
    from toposcope.api.controller_config import Config

log = logging.getLogger(__name__)

_LARGEST: Final = 1 << 20
"""What a ConfigMap can hold."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What shows that a file changed, without reading it."""

    target: str
    """The file behind all links: a kubelet replaces a mounted ConfigMap by turning one link."""
    inode: int
    size: int
    modified: int


_ABSENT: Final = _Version("", 0, 0, 0)


class ConfigFile:
    """A file that `look` follows; as long as there is none, the built-in catalogue is in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = _ABSENT
        self._pending: _Version | None = None
        self._problems: tuple[str, ...] = ()
        self._looked = False
        self._refused = ""
        self.catalogue = BUILT_IN
        """The catalogue in force."""

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the text in force, and with a newer one that is not; one sentence each."""
        return (*self._problems, *([self._refused] if self._refused else ()))

    def look(self) -> bool:
        """Take the file over if it changed; whether another catalogue is in force now.

        To be called about once a minute. A file that turns up, or comes in place of another by a link, is read at once;
        one that is written in place, or is gone, counts when that is so at two looks: in between it may be half a
        file. What cannot be used changes nothing.
        """
        try:
            version = self._stat()
        except OSError as error:
            return self._refuse(f"{self._path}: cannot be read: {error.strerror}")
        if version == self._version:
            if not self._looked:
                log.info("%s is not there; only the built-in catalogue is in force", self._path)
            self._pending, self._looked = None, True
            return False
        if version.target in {"", self._version.target} and self._pending != version:
            self._pending = version
            return False
        self._version, self._pending, self._looked = version, None, True
        return self._take()

    def _stat(self) -> _Version:
        """Raises OSError, but not for a file that is not there."""
        target = os.path.realpath(self._path)
        try:
            found = os.stat(target)  # noqa: PTH116 - beside os.path.realpath, of the very same file
        except (FileNotFoundError, NotADirectoryError):
            return _ABSENT
        return _Version(target, found.st_ino, found.st_size, found.st_mtime_ns)

    def _take(self) -> bool:
        before = self.catalogue
        if self._version is _ABSENT:
            log.warning("%s is gone; the built-in catalogue is in force", self._path)
            self.catalogue, self._problems = BUILT_IN, ()
        else:
            try:
                config = self._read()
            except ValueError as error:  # not of its form, or not even UTF-8
                return self._refuse(str(error))
            except OSError as error:
                return self._refuse(f"{self._path}: cannot be read: {error.strerror}")
            for problem in config.problems:
                log.error("%s; the rest is in force", problem)
            log.info("%s is in force", self._path)
            self.catalogue, self._problems = config.catalogue, config.problems
        self._refused = ""
        return self.catalogue != before

    def _read(self) -> "Config":
        """Raises ValueError and OSError."""
        from toposcope.api.controller_config import UnreadableError, read_config  # noqa: PLC0415 - only a file is worth YAML's memory

        if self._version.size > _LARGEST:
            raise UnreadableError(f"{self._path}: has {self._version.size} bytes; a ConfigMap holds {_LARGEST}")
        return read_config(Path(self._version.target).read_bytes(), str(self._path))

    def _refuse(self, problem: str) -> bool:
        if problem != self._refused:
            log.error("%s; what was in force stays", problem)
        self._refused = problem
        return False
