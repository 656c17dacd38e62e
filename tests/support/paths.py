"""Where things are in the repository, and where tests put theirs."""

import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MANIFESTS = ROOT / "manifests"
CRD = MANIFESTS / "crds" / "gpu.topology_clustertopologies.yaml"
FIXTURES = ROOT / "tests" / "fixtures"
DOCUMENTS = ROOT / "tests" / "documents"
"""Kubernetes objects, recorded answers and expected pages, in a folder for each room."""

SHARED = Path(os.environ.get("TOPOSCOPE_SHARED") or ROOT.parent / "shared")
"""Captures of machines and other projects' CRDs beside the repository: where they are, tests cover them as well."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it has names of its own
_NEEDED_BYTES = 2 << 30  # bytes; a run has a quarter of it in use


def use_memory() -> None:
    """Have temporary files made in memory, by this process and those that it starts; who set TMPDIR keeps it.

    Simulated machines are trees of hundreds of small files, and etcd writes all the time: on a disk they cost several
    times as much processor time, and more waiting than all else.
    """
    if "TMPDIR" not in os.environ and _is_good(_MEMORY):
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # asked again


def _is_good(folder: Path) -> bool:
    """Whether there is room, and programs in it may be run: containers often have neither."""
    if not os.access(folder, os.W_OK):
        return False
    statistics = os.statvfs(folder)
    return statistics.f_bavail * statistics.f_frsize >= _NEEDED_BYTES and not statistics.f_flag & os.ST_NOEXEC
