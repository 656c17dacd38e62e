"""What `pip install` puts into site-packages: one package, with every file of the tree that a program reads."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_build import PAGE
from tests.support.paths import ROOT

CRD = "toposcope/simulator/crds/gpu.topology_clustertopologies.yaml"
"""Copied from manifests/ by the build."""
BUILT = {f"toposcope/ui/static/{name}" for name in PAGE}


def build(source: Path, target: str, folder: Path, *, release: bool = False) -> subprocess.CompletedProcess[str]:
    """Run hatchling as `pip` and the release do, with the page as it is in `source`."""
    environment = {key: value for key, value in os.environ.items() if key != "TOPOSCOPE_RELEASE"}
    environment |= {"TOPOSCOPE_RELEASE": "1"} if release else {}
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    return subprocess.run(
        command, cwd=source, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def tree() -> set[str]:
    """Every file below toposcope/ that ships: neither what git ignores nor the sources of the page."""
    files = (path.relative_to(ROOT) for path in (ROOT / "toposcope").rglob("*") if path.is_file())
    return {
        str(path)
        for path in files
        if "__pycache__" not in path.parts
        and path.parts[:3] not in {("toposcope", "ui", "page"), ("toposcope", "ui", "static")}
    }


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    done = build(ROOT, "sdist", folder)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    return source


def test_the_source_distribution_holds_the_whole_tree(unpacked: Path) -> None:
    there = {str(path.relative_to(unpacked)) for path in (unpacked / "toposcope").rglob("*") if path.is_file()}
    assert tree() - there == set()
    more = [
        "tests/conftest.py",
        "tools/bench/__main__.py",
        "manifests/base/kustomization.yaml",
        "Makefile",
        "Dockerfile",
    ]
    assert [name for name in more if not (unpacked / name).is_file()] == []


def test_a_wheel_of_the_source_distribution_holds_one_package_with_every_file(unpacked: Path, tmp_path: Path) -> None:
    done = build(unpacked, "wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"toposcope"}
    assert names - BUILT == tree() | {CRD}


def test_a_release_without_the_page_is_an_error_and_an_installation_is_not(unpacked: Path, tmp_path: Path) -> None:
    static = unpacked / "toposcope" / "ui" / "static"
    aside = static.with_name("static-aside")
    static.mkdir(exist_ok=True)
    static.rename(aside)
    try:
        refused = build(unpacked, "wheel", tmp_path, release=True)
        assert refused.returncode != 0
        assert "the page of `toposcope ui` is not built" in refused.stderr
        assert not list(tmp_path.glob("*.whl"))
        done = build(unpacked, "wheel", tmp_path)
        assert done.returncode == 0
        assert "run `make ui` first" in done.stderr + done.stdout
    finally:
        aside.rename(static)


def test_the_wheel_carries_the_page_where_it_is_built(unpacked: Path, tmp_path: Path) -> None:
    static = unpacked / "toposcope" / "ui" / "static"
    for name in PAGE:
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        (static / name).touch()
    done = build(unpacked, "wheel", tmp_path, release=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert set(zipfile.ZipFile(wheel).namelist()) >= BUILT
