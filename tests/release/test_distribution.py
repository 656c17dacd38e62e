"""What `pip install` puts into site-packages: one package, with every file of the tree that a program reads.

Its modules import one another one way only, also within functions and for types.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
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


@pytest.mark.regression
def test_source_distribution_holds_the_whole_tree(unpacked: Path) -> None:
    there = {str(path.relative_to(unpacked)) for path in (unpacked / "toposcope").rglob("*") if path.is_file()}
    assert tree() - there == set()
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
    assert [name for name in more if not (unpacked / name).is_file()] == []


@pytest.mark.regression
def test_wheel_of_the_source_distribution_holds_every_file(unpacked: Path, tmp_path: Path) -> None:
    done = build(unpacked, "wheel", tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set()
    for name in zipfile.ZipFile(wheel).namelist():
        if ".dist-info/" not in name and ".data/" not in name:
            names.add(name)
            assert name.startswith("toposcope/")
    assert names - BUILT == tree() | {CRD}


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


def test_wheel_carries_the_page_where_it_is_built(unpacked: Path, tmp_path: Path) -> None:
    static = unpacked / "toposcope" / "ui" / "static"
    for name in PAGE:
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        (static / name).touch()
    done = build(unpacked, "wheel", tmp_path, release=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert set(zipfile.ZipFile(wheel).namelist()) >= BUILT


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    assert build(unpacked, "wheel", folder).returncode == 0
    return next(folder.glob("*.whl"))


def run(*command: str | Path, **environ: str) -> str:
    """What a command prints; one that finds no package index is skipped."""
    environment = {**os.environ, **environ}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode and os.environ.get("TOPOSCOPE_REQUIRE_IMAGE") != "1":
        for sign in ("No matching distribution", "Failed to fetch", "Network is unreachable"):
            if sign in done.stderr:
                pytest.skip("no package index")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("installer", [("tool", "install"), ("tool", "run", "pipx", "install")], ids=["uv", "pipx"])
def test_installer_of_commands_installs_the_wheel(wheel: Path, tmp_path: Path, installer: tuple[str, ...]) -> None:
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
        assert run(programs / name, "--version") == f"toposcope {__version__}\n"
    assert "complete " in run(programs / "toposcope", "completion", "bash")
    assert (programs / "kubectl_complete-toposcope").exists()


@pytest.mark.slow
def test_wheel_is_installed_without_a_network(wheel: Path, tmp_path: Path) -> None:
    """The commands of docs/get.md, with the wheel's file for its address."""
    away, venv = tmp_path / "toposcope-wheels", tmp_path / "venv"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", away, wheel)
    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    command = ("install", "--quiet", "--no-index", "--find-links", away, "toposcope")
    run(python, "-m", "pip", *command, PIP_INDEX_URL="http://127.0.0.1:9", PIP_CONFIG_FILE=os.devnull)
    assert run(venv / "bin" / "toposcope", "--version") == f"toposcope {__version__}\n"


def test_kustomize_builds_the_documented_overlay_from_afar(tmp_path: Path) -> None:
    """From a git server that answers for GitHub."""
    kubectl, git = shutil.which("kubectl"), shutil.which("git")
    if not (kubectl and git):
        pytest.skip("kubectl and git are not on PATH")
    far = tmp_path / "toposcope.git"
    shutil.copytree(ROOT / "manifests", far / "manifests", symlinks=True)
    name = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "all"), ("tag", f"v{__version__}")):
        run(git, "-C", far, *name, *words)
    page = (ROOT / "docs" / "get.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "kustomization.yaml").write_text(overlay)
    (crds,) = re.findall(r'-k "(https:[^"]+)"', page)
    crds = crds.replace("$OWNER", "OWNER").replace("$VERSION", __version__)
    mirror = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/.insteadOf"}
    mirror["GIT_CONFIG_VALUE_0"] = "https://github.com/OWNER/"
    found = list(yaml.safe_load_all(run(kubectl, "kustomize", tmp_path, **mirror)))
    by_kind = {item["kind"]: item for item in found}
    (container,) = by_kind["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"ghcr.io/OWNER/toposcope:{__version__}"
    assert "NetworkPolicy" in by_kind
    crd = yaml.safe_load(run(kubectl, "kustomize", crds, **mirror))
    assert crd["kind"] == "CustomResourceDefinition"


@pytest.mark.slow
def test_image_and_chart_are_carried_to_where_there_is_no_network(tmp_path: Path) -> None:
    """The commands of docs/get.md between registries of this machine."""
    helm, crane = find("helm"), find("crane")
    serve = [crane, "registry", "serve", "--address", "127.0.0.1:0"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as registry:
        assert registry.stderr
        try:
            ours = f"127.0.0.1:{registry.stderr.readline().rpartition(' ')[2].strip()}/owner"
            with tarfile.open(tmp_path / "layer.tar", "w") as layer:
                layer.add(ROOT / "LICENSE", "LICENSE")
            run(crane, "append", "-f", tmp_path / "layer.tar", "-t", f"{ours}/toposcope:{__version__}")
            shutil.copytree(ROOT / "manifests" / "chart", tmp_path / "toposcope")
            run(helm, "package", tmp_path / "toposcope", "--destination", tmp_path)
            archive = f"toposcope-{__version__}.tgz"
            run(helm, "push", tmp_path / archive, f"oci://{ours}/charts", "--plain-http")
            (tmp_path / "away").mkdir()
            pull = ("pull", f"oci://{ours}/charts/toposcope", "--version", __version__, "--plain-http")
            run(helm, *pull, "--destination", tmp_path / "away")
            run(crane, "copy", f"{ours}/toposcope:{__version__}", f"{ours}/mirror:{__version__}")
            assert run(crane, "digest", f"{ours}/mirror:{__version__}").startswith("sha256:")
        finally:
            registry.terminate()
    assert (tmp_path / "away" / archive).read_bytes() == (tmp_path / archive).read_bytes()


@pytest.mark.slow
def test_krews_plugin_installs_itself_and_its_manifest_describes_it(wheel: Path, tmp_path: Path) -> None:
    manifest = yaml.safe_load(pack_plugin(wheel.parent, "someone/toposcope").read_text())
    assert manifest["metadata"]["name"] == "toposcope"
    assert manifest["spec"]["version"] == f"v{__version__}"
    (platform,) = manifest["spec"]["platforms"]
    archive = wheel.parent / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as tar:
        assert [entry["from"] for entry in platform["files"]] == tar.getnames()
        tar.extractall(tmp_path, filter="data")
    link = tmp_path / "kubectl-toposcope-link"  # krew puts a link on PATH
    link.symlink_to(tmp_path / platform["bin"])
    for _ in range(2):
        assert run(link, "--version", XDG_CACHE_HOME=str(tmp_path / "cache")) == f"toposcope {__version__}\n"
    assert "kubectl toposcope COMMAND" in run(link, "--help", XDG_CACHE_HOME=str(tmp_path / "cache"))


def test_released_chart_names_its_release(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "manifests" / "chart", tmp_path / "toposcope")
    address_chart(tmp_path / "toposcope", "Someone/toposcope")
    text = ""
    for name in ("Chart.yaml", "README.md", "values.yaml"):
        text += (tmp_path / "toposcope" / name).read_text()
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
