"""What the image holds, made by the script that its recipe calls."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from tools.apiserver.build import cache_root, made_once

SCRIPT = ROOT / "image" / "assemble.sh"
PINNED = (ROOT / "image" / "runtime.lock", ROOT / "image" / "build.lock", SCRIPT)


def assemble(step: str, prefix: Path) -> None:
    done = subprocess.run(
        [SCRIPT, step, prefix],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode:
        output = done.stdout[-1000:] + done.stderr[-2000:]
        raise AssertionError(f"image/assemble.sh {step} failed:\n{output}")


def dependencies() -> Path:
    """The first step, once for each lock file; it needs a package index."""
    digest = sha256()
    for path in PINNED:
        digest.update(path.read_bytes())
    try:
        return made_once(
            cache_root() / "image" / digest.hexdigest()[:16],
            lambda folder: (folder / "toposcope").is_dir(),
            lambda made: assemble("dependencies", made / "toposcope"),
        )
    except AssertionError as error:
        if os.environ.get("TOPOSCOPE_REQUIRE_IMAGE") == "1":
            raise
        pytest.skip(f"no package index? {error}")


def _link(source: str, target: str) -> None:
    """The file under one more name: the second step adds and removes, and changes none."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


@pytest.fixture(scope="session")
def prefix() -> Iterator[Path]:
    """The folder that the image has as /opt/toposcope, in a place that any user can read."""
    kept = dependencies()
    with tempfile.TemporaryDirectory(prefix="toposcope-image-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("toposcope", "toposcope.tools"):
            shutil.copytree(kept / part, folder / part, symlinks=True, copy_function=_link)
        assemble("program", folder / "toposcope")
        yield folder / "toposcope"
