"""`make e2e`: build what the end-to-end test needs, and run it in namespaces of its own.

Where that is impossible it says why and ends well, unless TOPOSCOPE_REQUIRE_E2E=1.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.e2e import build
from tests.e2e.cluster import NAMESPACE, remove_cgroups
from tools.apiserver.build import BuildError
from tools.apiserver.server import UnavailableError, find_binaries

FOLDER: Final = "TOPOSCOPE_E2E"
_SYSCTLS: Final = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
"""Those that kubelet sets for the whole machine."""
_ROOM: Final = 4 << 30
_TOLD: Final = 15
"""Lines of each log that a failure prints."""
_NAMESPACES: Final = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def obstacle() -> str:
    """Why there can be no nodes here; empty where there can."""
    if os.geteuid() != 0:
        return "needs root, for namespaces and cgroups"
    programs = (*build.PACKAGES, "kubectl", "unshare", "nsenter")
    missing = []
    packages = []
    for program in programs:
        if shutil.which(program):
            continue
        missing.append(program)
        if program in build.PACKAGES:
            packages.append(build.PACKAGES[program])
    if not missing:
        return ""
    reason = f"{', '.join(missing)} missing"
    if packages:
        reason += f": apt-get install {' '.join(packages)}"
    return reason


def _prepare() -> str:
    """Make what the tests run; why that is impossible, or empty."""
    reason = obstacle()
    if reason:
        return reason
    try:
        find_binaries()
        build.programs()
        build.toolkit()
        build.kube_proxy()
        build.base()
    except (BuildError, UnavailableError) as error:
        return str(error)
    return ""


def _place() -> Path:
    """In memory, where there is enough: the nodes unpack their images there, 0.7 GB in all, and wait for the disk."""
    memory = Path("/dev/shm")  # noqa: S108 - the folder in it is made for us alone
    if shutil.disk_usage(memory).free > _ROOM:
        return memory
    return Path("/var/tmp")  # noqa: S108 - as above


def _sysctls() -> dict[Path, str]:
    values = {}
    for name in _SYSCTLS:
        path = Path("/proc/sys") / name
        if path.exists():
            values[path] = path.read_text()
    return values


def _print_logs(folder: Path) -> None:
    """The ends of our containers' logs: elsewhere than here nobody can look at them."""
    for log in sorted(folder.glob(f"*/pods/{NAMESPACE}_*/*/*.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        print(f"--- {log.relative_to(folder)}", file=sys.stderr)
        print(*text.splitlines()[-_TOLD:], sep="\n", file=sys.stderr)
    print(f"logs are in {folder}", file=sys.stderr)


def main(arguments: list[str]) -> int:
    """Run the tests with more arguments for pytest; their exit status."""
    reason = _prepare()
    if reason:
        print(f"make e2e: skipped: {reason}", file=sys.stderr)
        return int(os.environ.get("TOPOSCOPE_REQUIRE_E2E") == "1")
    before = _sysctls()
    folder = Path(tempfile.mkdtemp(prefix="toposcope-e2e-", dir=_place()))
    command = [
        *_NAMESPACES,
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:xdist",
        "-x",
        str(Path(__file__).parent),
        *arguments,
    ]
    environment = {**os.environ, FOLDER: str(folder)}
    try:
        tests = subprocess.run(command, env=environment, check=False)
    finally:
        for path, value in before.items():
            path.write_text(value)
        remove_cgroups()
    if tests.returncode:
        _print_logs(folder)
    else:
        shutil.rmtree(folder)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
