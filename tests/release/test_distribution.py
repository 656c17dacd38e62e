"""What `pip install` puts into site-packages: one package, with every file of the tree that a program reads.

Its modules import one another one way only, also within functions and for types.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
import yaml
from hatch_build import PAGE
from tests.support.paths import ROOT
from tests.support.programs import find
from tools.docgen.packages import address_chart, pack_plugin
from toposcope import __version__

CRD = "toposcope/simulator/crds/gpu.topology_clustertopologies.yaml"
"""Copied from manifests/ by the build."""
BUILT = {f"toposcope/ui/static/{name}" for name in PAGE}
NO_INDEX = (
    "No matching distribution",
    "Failed to fetch",
    "Network is unreachable",
)
"""What installers say where there is no package index."""


def build(source: Path, target: str, folder: Path, *, release: bool = False) -> subprocess.CompletedProcess[str]:
    """Run hatchling as `pip` and the release do, with the page as it is in `source`."""
    environment = dict(os.environ)
    environment.pop("TOPOSCOPE_RELEASE", None)
    if release:
        environment["TOPOSCOPE_RELEASE"] = "1"
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        target,
        "-d",
        str(folder),
    ]
    return subprocess.run(
        command,
        cwd=source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def files_below(folder: Path, root: Path) -> list[Path]:
    """Every file below a folder, relative to a root."""
    files = []
    for path in folder.rglob("*"):
        if path.is_file():
            files.append(path.relative_to(root))
    return files


def tree() -> set[str]:
    """Every file below toposcope/ that ships: neither what git ignores nor the sources of the page."""
    unshipped = (
        ("toposcope", "ui", "page"),
        ("toposcope", "ui", "static"),
    )
    shipped = set()
    for path in files_below(ROOT / "toposcope", ROOT):
        if "__pycache__" in path.parts or path.parts[:3] in unshipped:
            continue
        shipped.add(str(path))
    return shipped


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    done = build(ROOT, "sdist", folder)
    assert done.returncode == 0, done.stderr
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    folders = []
    for path in folder.iterdir():
        if path.is_dir():
            folders.append(path)
    (source,) = folders
    return source


@pytest.mark.slow
@pytest.mark.regression
def test_source_distribution_holds_the_whole_tree(unpacked: Path) -> None:
    package = files_below(unpacked / "toposcope", unpacked)
    missing = tree() - {str(path) for path in package}
    assert missing == set()
    more = [
        "tests/conftest.py",
        "tools/bench/__main__.py",
        "manifests/base/kustomization.yaml",
        "manifests/chart/files/base/namespace.yaml",
        "manifests/components/admission-policy/kustomization.yaml",
        "manifests/crds/kustomization.yaml",
        "manifests/prune/job.yaml",
        "Makefile",
        "Dockerfile",
    ]
    for name in more:
        file = unpacked / name
        assert file.is_file(), name


@pytest.mark.slow
@pytest.mark.regression
def test_wheel_of_the_source_distribution_holds_every_file(unpacked: Path, tmp_path: Path) -> None:
    done = build(unpacked, "wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set()
    for name in zipfile.ZipFile(wheel).namelist():
        if ".dist-info/" in name or ".data/" in name:
            continue
        assert name.startswith("toposcope/")
        names.add(name)
    assert names - BUILT == tree() | {CRD}


@pytest.mark.slow
@pytest.mark.regression
def test_release_without_the_page_is_an_error_and_an_installation_is_not(unpacked: Path, tmp_path: Path) -> None:
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


@pytest.mark.slow
def test_wheel_carries_the_page_where_it_is_built(unpacked: Path, tmp_path: Path) -> None:
    static = unpacked / "toposcope" / "ui" / "static"
    for name in PAGE:
        file = static / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    done = build(unpacked, "wheel", tmp_path, release=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert set(names) >= BUILT


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = build(unpacked, "wheel", folder)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def run(*command: str | Path, **environ: str) -> str:
    """What a command prints; one that finds no package index is skipped."""
    # pip would compile every module of every dependency, and little of it is run here.
    done = subprocess.run(
        command,
        env={**os.environ, "PIP_NO_COMPILE": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    is_required = os.environ.get("TOPOSCOPE_REQUIRE_IMAGE") == "1"
    if done.returncode and not is_required:
        for sign in NO_INDEX:
            if sign in done.stderr:
                pytest.skip("no package index")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "installer",
    [
        pytest.param(("tool", "install"), id="uv"),
        pytest.param(("tool", "run", "pipx", "install"), id="pipx"),
    ],
)
def test_installer_of_commands_installs_the_wheel(
    wheel: Path,
    tmp_path: Path,
    installer: tuple[str, ...],
) -> None:
    programs = tmp_path / "bin"
    uv = Path(sys.executable).with_name("uv")
    environment = {
        "HOME": str(tmp_path),
        "PIPX_HOME": str(tmp_path),
        "PIPX_BIN_DIR": str(programs),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
    }
    if "pipx" not in installer:
        environment["UV_TOOL_BIN_DIR"] = str(programs)
    run(uv, *installer, "--quiet", wheel, **environment)
    for name in ("toposcope", "kubectl-toposcope"):
        version = run(programs / name, "--version")
        assert version == f"toposcope {__version__}\n"
    completion = run(programs / "toposcope", "completion", "bash")
    assert "complete " in completion
    assert (programs / "kubectl_complete-toposcope").exists()


@pytest.mark.slow
def test_wheel_is_installed_without_a_network(wheel: Path, tmp_path: Path) -> None:
    """The commands of docs/install.md, with the wheel's file for its address."""
    away = tmp_path / "toposcope-wheels"
    venv = tmp_path / "venv"
    run(
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--dest",
        away,
        wheel,
    )
    run(sys.executable, "-m", "venv", venv)
    run(
        venv / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links",
        away,
        "toposcope",
        PIP_INDEX_URL="http://127.0.0.1:9",
        PIP_CONFIG_FILE=os.devnull,
    )
    version = run(venv / "bin" / "toposcope", "--version")
    assert version == f"toposcope {__version__}\n"


def serve_by_git(git: str, repository: Path) -> None:
    """Make a repository of the manifests, with a tag of this version."""
    shutil.copytree(ROOT / "manifests", repository / "manifests", symlinks=True)
    for command in (
        ("init", "--quiet"),
        ("add", "."),
        ("commit", "--quiet", "-m", "all"),
        ("tag", f"v{__version__}"),
    ):
        run(
            git,
            "-C",
            repository,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            *command,
        )


@pytest.mark.slow
def test_kustomize_builds_the_documented_overlay_from_afar(tmp_path: Path) -> None:
    """From a git server that answers for GitHub."""
    kubectl = shutil.which("kubectl")
    git = shutil.which("git")
    if not (kubectl and git):
        pytest.skip("kubectl and git are not on PATH")
    serve_by_git(git, tmp_path / "toposcope.git")
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(r"```yaml\n([^`]*//manifests/base[^`]*)```", page)
    (tmp_path / "kustomization.yaml").write_text(overlay)
    (crds,) = re.findall(r'-k "(https:[^"]+)"', page)
    crds = crds.replace("$OWNER", "OWNER")
    crds = crds.replace("$VERSION", __version__)
    mirror = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/OWNER/",
    }

    built = run(kubectl, "kustomize", tmp_path, **mirror)
    by_kind = {}
    for item in yaml.load_all(built, yaml.CSafeLoader):
        by_kind[item["kind"]] = item
    template = by_kind["DaemonSet"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert container["image"] == f"registry.example.com/toposcope:{__version__}"
    assert "NetworkPolicy" in by_kind

    built = run(kubectl, "kustomize", crds, **mirror)
    crd = yaml.load(built, yaml.CSafeLoader)
    assert crd["kind"] == "CustomResourceDefinition"


@contextlib.contextmanager
def registry(crane: str) -> Iterator[str]:
    """The address of a registry on this machine."""
    command = [crane, "registry", "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            _, _, port = process.stderr.readline().rpartition(" ")
            yield f"127.0.0.1:{port.strip()}"
        finally:
            process.terminate()


@pytest.mark.slow
def test_image_and_chart_are_carried_to_where_there_is_no_network(tmp_path: Path) -> None:
    """The commands of docs/install.md between registries of this machine."""
    helm = find("helm")
    crane = find("crane")
    chart = tmp_path / "toposcope"
    shutil.copytree(ROOT / "manifests" / "chart", chart)
    archive = tmp_path / f"toposcope-{__version__}.tgz"
    away = tmp_path / "away"
    away.mkdir()
    with registry(crane) as address:
        ours = f"{address}/owner"
        image = f"{ours}/toposcope:{__version__}"
        mirrored = f"{ours}/mirror:{__version__}"

        layer = tmp_path / "layer.tar"
        with tarfile.open(layer, "w") as content:
            content.add(ROOT / "LICENSE", "LICENSE")
        run(crane, "append", "-f", layer, "-t", image)
        run(crane, "copy", image, mirrored)
        digest = run(crane, "digest", mirrored)
        assert digest.startswith("sha256:")

        run(helm, "package", chart, "--destination", tmp_path)
        run(helm, "push", archive, f"oci://{ours}/charts", "--plain-http")
        run(
            helm,
            "pull",
            f"oci://{ours}/charts/toposcope",
            "--version",
            __version__,
            "--plain-http",
            "--destination",
            away,
        )
    pulled = away / archive.name
    assert pulled.read_bytes() == archive.read_bytes()


@pytest.mark.slow
def test_krews_plugin_installs_itself_and_its_manifest_describes_it(wheel: Path, tmp_path: Path) -> None:
    file = pack_plugin(wheel.parent, "someone/toposcope")
    manifest = yaml.load(file.read_text(), yaml.CSafeLoader)
    assert manifest["metadata"]["name"] == "toposcope"
    spec = manifest["spec"]
    assert spec["version"] == f"v{__version__}"
    (platform,) = spec["platforms"]
    _, _, name = platform["uri"].rpartition("/")
    archive = wheel.parent / name
    digest = hashlib.sha256(archive.read_bytes())
    assert platform["sha256"] == digest.hexdigest()
    with tarfile.open(archive) as tar:
        files = [entry["from"] for entry in platform["files"]]
        assert files == tar.getnames()
        tar.extractall(tmp_path, filter="data")

    link = tmp_path / "kubectl-toposcope-link"  # krew puts a link on PATH
    link.symlink_to(tmp_path / platform["bin"])
    cache = str(tmp_path / "cache")
    for _ in range(2):
        version = run(link, "--version", XDG_CACHE_HOME=cache)
        assert version == f"toposcope {__version__}\n"
    usage = run(link, "--help", XDG_CACHE_HOME=cache)
    assert "kubectl toposcope COMMAND" in usage


def test_released_chart_names_its_release(tmp_path: Path) -> None:
    chart = tmp_path / "toposcope"
    shutil.copytree(ROOT / "manifests" / "chart", chart)
    address_chart(chart, "Someone/toposcope")
    text = ""
    for name in ("Chart.yaml", "README.md", "values.yaml"):
        file = chart / name
        text += file.read_text()
    assert "OWNER" not in text
    assert "repository: ghcr.io/someone/toposcope\n" in text
    assert "oci://ghcr.io/someone/charts/toposcope" in text
    assert "home: https://github.com/Someone/toposcope\n" in text


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("toposcope", cache_dir=None)
    cycles = []
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            chain = graph.find_shortest_chain(imported, module)
            if chain:
                cycles.append((module, *chain))
    assert cycles == []
