"""A program started as in a pod: another user, no rights, no shell, and nothing at all that could be written."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

USER = 65532
# What a pod has of an environment, as far as it matters: no HOME, no TMPDIR.
ENVIRONMENT = {
    "LC_ALL": "C",
    "MALLOC_ARENA_MAX": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONOPTIMIZE": "2",
    "PYTHONUNBUFFERED": "1",
}
_ENTER = Path(__file__).with_name("enter.sh")


def _closed(folder: Path) -> str:
    """The highest folder on the way that others may not enter; nothing where there is none."""
    for way in reversed([folder, *folder.parents]):
        if not way.stat().st_mode & 0o001:
            return str(way)
    return ""


class Confinement:
    """Starts programs so; `root` is an empty folder that becomes their root."""

    def __init__(self, prefix: Path, root: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("needs root, to become another user without rights")
        for name in ("unshare", "setpriv", "chroot"):
            if shutil.which(name) is None:
                pytest.skip(f"needs {name}, to become another user without rights")
        self._prefix = prefix
        self._root = root
        interpreter = (prefix / "bin" / "python").resolve().parents[1]
        self._interpreter = str(interpreter)
        self._closed = _closed(interpreter)
        root.mkdir()

    def command(self, *arguments: str | Path) -> list[str]:
        """What starts `toposcope` or `python` of the image in it; only by exec, so that its pid is known."""
        program, *rest = map(str, arguments)
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        return [
            "unshare",
            "--mount",
            "sh",
            str(_ENTER),
            str(self._root),
            self._closed,
            self._interpreter,
            "setpriv",
            f"--reuid={USER}",
            f"--regid={USER}",
            "--clear-groups",
            "--no-new-privs",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "env",
            "-i",
            f"PATH={self._prefix}/bin:/usr/bin",
            *environment,
            str(self._prefix / "bin" / program),
            *rest,
        ]

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start a program."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
