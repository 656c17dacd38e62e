"""A /sys with files gone, empty, cut or full of anything, as half-mounted and foreign kernels show it."""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from tools.fuzz.subject import Outcome, Subject, held, refusal
from toposcope.agent.describe import describe
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs
from toposcope.topology.label_values import is_label_value

_MACHINE: Final = "hgx-a100-4"
_CONTENTS: Final = (
    b"", b"\n", b"-1\n", b"0\n", b"999999999999\n", b"0-99999999999\n", b"0-3,8-11\n", b"3-0\n", b",,,\n", b"0x10de\n",
    b"0x030200\n", b"\xff\xfe\x00", b"4: ACTIVE\n", b"x" * 5000, b"10 20 30\n", b"1e9\n", b"0-\n",
)  # fmt: skip


@cache
def _tree() -> tuple[Path, tuple[str, ...]]:
    root = Path(tempfile.mkdtemp(prefix="sysfs-"))
    write_sysfs(load_profile(_MACHINE), root)
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or path.is_symlink())
    return root, tuple(files)


def attempt(case: Any) -> Outcome:
    """A node described, with the tree put back afterwards."""
    root, files = _tree()
    gateway = Nvml(SimulatedNvml(load_profile(_MACHINE)))
    undo = []
    try:
        for number, content in case:
            path = str(root / files[number % len(files)])
            if os.path.lexists(path):
                undo.append(_changed(path, content))
        raw = probe(gateway, Sysfs(root), gateway.start())
        found = describe(raw, "node-1")
    finally:
        for put_back in reversed(undo):
            put_back()
    for key, value in found.labels.known.items():
        held(is_label_value(str(value)), f"{key}={value!r} is no label value")
    return refusal(found.problem) if found.problem else "taken"


def _changed(path: str, content: bytes | None) -> Any:
    """Change one entry; what puts it back."""
    if os.path.islink(path):  # noqa: PTH114 - paths are text here
        target = os.readlink(path)  # noqa: PTH115 - same
        os.unlink(path)  # noqa: PTH108 - same
        if content:
            os.symlink(content.decode("ascii", "replace").replace("\0", "?").strip()[:200] or "gone", path)  # noqa: PTH211 - same

        def link_back() -> None:
            if os.path.lexists(path):
                os.unlink(path)  # noqa: PTH108 - same
            os.symlink(target, path)  # noqa: PTH211 - same

        return link_back
    before = Path(path).read_bytes()
    if content is None:
        os.unlink(path)  # noqa: PTH108 - same
    else:
        Path(path).write_bytes(content)
    return lambda: Path(path).write_bytes(before)


SYSFS: Final = Subject(
    "sysfs",
    "whatever /sys shows, labels are legal or the problem is reported",
    st.lists(
        st.tuples(st.integers(0, 5000), st.one_of(st.none(), st.sampled_from(_CONTENTS), st.binary(max_size=20))),
        max_size=8,
    ),
    attempt,
)
