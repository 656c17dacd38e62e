"""How files of /sys are read: small, without waiting, and nothing but regular files."""

import os
import stat
from typing import Final

from toposcope.agent.vpd import Vpd, parse_vpd

_MOST_BYTES: Final = 1 << 16
_MOST_VPD_BYTES: Final = 4096
"""The kernel passes on a page at a time, and a card's data is some hundred bytes."""
_DELETED: Final = " (deleted)"
"""What the kernel adds to the name of something that has gone."""
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Not to wait for the other end of a pipe that lies where a file should."""

Entry = tuple[str, int]
"""Name and inode number of a folder's entry."""


class Files:
    """How a probe reads the tree; `discover --record` passes one that remembers what was read."""

    def entries(self, folder: str) -> list[Entry]:
        """The entries of a folder, unordered; none when it cannot be read."""
        try:
            with os.scandir(folder) as entries:
                return [(entry.name, entry.inode()) for entry in entries]
        except OSError:
            return []

    def names(self, folder: str) -> list[str]:
        """The names in a folder."""
        return [name for name, _ in self.entries(folder)]

    def text(self, path: str) -> str:
        """A file without the white space around it.

        Empty when it cannot be read, or is no regular file.
        """
        return _content(path, _MOST_BYTES).decode("ascii", "replace").strip()

    def vpd(self, path: str) -> Vpd | None:
        """Vital product data; None when it cannot be read, as without root's rights.

        A function that is asleep, or that a hypervisor hides a part of, answers bytes of all ones
        or zeros.
        """
        data = _content(path, _MOST_VPD_BYTES)
        return parse_vpd(data) if data and data.strip(b"\xff\0") else None

    def real(self, path: str) -> str:
        """The path with all links followed."""
        try:
            # The kernel follows them in one call; os.path.realpath asks it about every folder on
            # the way.
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return os.path.realpath(path)
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:  # no /proc
            return os.path.realpath(path)
        finally:
            os.close(descriptor)
        return os.path.realpath(path) if target.endswith(_DELETED) else target

    def exists(self, path: str) -> bool:
        """Whether the path exists, links followed."""
        return os.path.exists(path)

    def lexists(self, path: str) -> bool:
        """Whether the path exists, be it a dangling link."""
        return os.path.lexists(path)


def _content(path: str, limit: int) -> bytes:
    """Up to `limit` bytes of a regular file; none when it cannot be read."""
    try:
        # Without Python's file objects: they are more than half of what 200 small reads cost.
        descriptor = os.open(path, _READ)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return os.read(descriptor, limit)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
