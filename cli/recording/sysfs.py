"""A file reader that notes what it was asked for: enough of /sys to build the same tree elsewhere."""

import os
from pathlib import Path

from agent.sysfs import Files, Sysfs
from simulator.recording import Entry, File, Folder, Link


def recorded_sysfs(root: Path) -> list[Entry]:
    """Everything in the tree `root` that a probe reads, by path."""
    top = os.path.realpath(root)
    files = _RecordingFiles(top)
    sysfs = Sysfs(Path(top), files)
    sysfs.nvidia_functions()
    sysfs.nics()
    sysfs.numa()
    return sorted(files.entries.values(), key=lambda entry: entry.path)


class _RecordingFiles(Files):
    """Notes files, folders and links under the path where they really are."""

    def __init__(self, top: str) -> None:
        self.entries: dict[str, Entry] = {}
        self._top = top

    def names(self, folder: str) -> list[str]:
        names = super().names(folder)
        place = self._follow(folder)
        if names and place:
            self.entries[place] = Folder(place, sorted(names))
        return names

    def text(self, path: str) -> str:
        text = super().text(path)
        place = self._follow(path)
        if place and os.path.isfile(path):
            self.entries[place] = File(place, text)
        return text

    def real(self, path: str) -> str:
        self.lexists(path)
        return super().real(path)

    def exists(self, path: str) -> bool:
        self.text(path)
        return super().exists(path)

    def lexists(self, path: str) -> bool:
        place = self._follow(path)
        if place and os.path.isdir(path):
            self.entries.setdefault(place, Folder(place, []))
        return super().lexists(path)

    def _follow(self, path: str) -> str | None:
        """Where a path leads, from the top of the tree; notes the links on the way. None: out of the tree."""
        here = self._top
        for part in path.removeprefix(self._top).strip("/").split("/"):
            step = f"{here}/{part}"
            here = os.path.realpath(step)
            if not here.startswith(f"{self._top}/"):
                return None
            if here != step:
                place = self._place(step)
                self.entries[place] = Link(place, os.path.relpath(here, os.path.dirname(step)))
        return self._place(here)

    def _place(self, path: str) -> str:
        return path.removeprefix(f"{self._top}/")
