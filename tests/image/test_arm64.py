"""The image for arm64: every package has a wheel, and native code can be mapped by kernels with pages of 64 KiB."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.support.paths import ROOT
from tools.apiserver.build import cache_root, made_once

pytestmark = pytest.mark.slow

LOCK = ROOT / "image" / "runtime.lock"
PAGE = 64 * 1024  # bytes, as the kernels of GB200 and GH200 have them
AARCH64, LOAD = 183, 1  # ELF's numbers for the machine and for a segment that is mapped


@pytest.fixture(scope="module")
def packages() -> Path:
    """What the lock file installs on arm64, wheels alone."""

    def make(folder: Path) -> None:
        uv = Path(sys.executable).parent / "uv"
        command = [
            str(uv),
            "pip",
            "install",
            "--quiet",
            "--require-hashes",
            "--python-version=3.13",
            "--python-platform=aarch64-manylinux_2_28",
            "--only-binary=:all:",
            f"--target={folder}",
            "-r",
            str(LOCK),
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr

    digest = sha256(LOCK.read_bytes()).hexdigest()[:16]
    try:
        return made_once(cache_root() / "arm64" / digest, Path.is_dir, make)
    except AssertionError as error:
        if os.environ.get("TOPOSCOPE_REQUIRE_IMAGE") == "1":
            raise
        pytest.skip(f"no package index? {error}")


def alignments(library: Path) -> Iterator[int]:
    """How each mapped segment of an ELF file of 64 bits is aligned, in bytes."""
    data = library.read_bytes()
    assert data[:5] == b"\x7fELF\x02", library
    assert struct.unpack_from("<H", data, 18) == (AARCH64,), library
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(start, start + size * count, size):
        (kind,) = struct.unpack_from("<I", data, at)
        if kind == LOAD:
            yield struct.unpack_from("<Q", data, at + 48)[0]


def test_native_code_fits_pages_of_64_kib(packages: Path) -> None:
    names = set()
    for path in packages.rglob("*.so*"):
        if not path.is_file():
            continue
        library = path.relative_to(packages)
        names.add(library.parts[0])
        assert min(alignments(path)) % PAGE == 0, library
    assert {"msgspec", "yaml"} <= names
