"""A file reader that notes what it was asked for: enough of /sys to build the tree elsewhere."""

import os
from pathlib import Path

from toposcope.agent.nvml.gateway import UNKNOWN, Nvml, NvmlReturn
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.agent.sysfs_files import Files
from toposcope.agent.vpd import Vpd
from toposcope.simulator.recording import Entry, File, Folder, Link


def recorded_sysfs(root: Path, *, has_vf_rails: bool = False) -> list[Entry]:
    """Everything in the tree `root` that a probe reads, by path.

    Where it `has_vf_rails`, virtual functions count as NICs.
    """
    top = os.path.realpath(root)
    files = _RecordingFiles(top)
    sysfs = Sysfs(Path(top), files, has_vf_rails=has_vf_rails)
    # A probe to which NVML is of no use still reads all of sysfs.
    probe(Nvml(None), sysfs, NvmlReturn(UNKNOWN, "not asked"))
    return sorted(files.noted.values(), key=lambda entry: entry.path)


class _RecordingFiles(Files):
    """Notes files, folders and links under the path where they really are."""

    def __init__(self, top: str) -> None:
        self.noted: dict[str, Entry] = {}
        self._top = top

    def entries(self, folder: str) -> list[tuple[str, int]]:
        entries = super().entries(folder)
        place = self._follow(folder)
        if entries and place:
            names = sorted(name for name, _ in entries)
            self.noted[place] = Folder(place, names)
        return entries

    def text(self, path: str) -> str:
        text = super().text(path)
        place = self._follow(path)
        if place and Path(path).is_file():
            self.noted[place] = File(place, text)
        return text

    def vpd(self, path: str) -> Vpd | None:
        vpd = super().vpd(path)
        place = self._follow(path)
        if vpd is not None and place:
            self.noted[place] = File(place, vpd.text)
        return vpd

    def real(self, path: str) -> str:
        self.lexists(path)
        return super().real(path)

    def exists(self, path: str) -> bool:
        self.text(path)
        self.lexists(path)
        return super().exists(path)

    def lexists(self, path: str) -> bool:
        place = self._follow(path)
        if place and Path(path).is_dir():
            self.noted.setdefault(place, Folder(place, []))
        return super().lexists(path)

    def _follow(self, path: str) -> str | None:
        """Where a path leads, from the top of the tree; None: out of it.

        Notes the links on the way.
        """
        here = self._top
        inside = f"{self._top}/"
        parts = path.removeprefix(inside).split("/")
        for part in parts:
            step = f"{here}/{part}"
            real = os.path.realpath(step)
            if not real.startswith(inside):
                return None
            if real != step:
                place = self._place(step)
                target = os.path.relpath(real, here)
                self.noted[place] = Link(place, target)
            here = real
        return self._place(here)

    def _place(self, path: str) -> str:
        return path.removeprefix(f"{self._top}/")
