"""What the end-to-end test runs, each made once: Kubernetes' programs, NVIDIA's container toolkit, the images."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.paths import ROOT
from tools.apiserver.build import (
    UNOPTIMIZED,
    BuildError,
    cache_of_module,
    cache_root,
    kubernetes_program,
    kubernetes_version,
    made_once,
    programs_once,
    run_go,
    usable_go,
)

IMAGE: Final = "docker.io/library/toposcope:0.1.0"
PAUSE: Final = "registry.k8s.io/pause:3.10"
PROGRAMS: Final = ("kubelet", "kube-controller-manager", "kube-scheduler")
PACKAGES: Final = {
    "containerd": "containerd",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "gcc": "gcc",
}
"""Debian's packages by a program of each."""
_HERE: Final = Path(__file__).parent
_TOOLKIT: Final = _HERE / "toolkit"
_PROXY: Final = _HERE / "proxy"
_SUITE: Final = "trixie"
"""The Debian of the Dockerfile's base image."""
_USED: Final = "python3,python3-venv,ca-certificates"
_PREFIX: Final = "opt/toposcope"
_IN_ROOT: Final = _HERE / "in_root.sh"
_UNUSED: Final = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
)
"""Folders of the lower layer that nothing reads."""


def programs() -> dict[str, Path]:
    """Kubelet, kube-controller-manager and kube-scheduler, by name; raises `BuildError`."""
    return {name: kubernetes_program(name) for name in PROGRAMS}


def kube_proxy() -> Path:
    """kube-proxy, by which pods reach Services: no newer than the API server. Raises `BuildError`."""
    module = _PROXY
    if kubernetes_version().startswith("v1.30."):
        module /= "oldest"

    def make(name: str, to: Path) -> None:
        package = f"k8s.io/kubernetes/cmd/{name}"
        command = [usable_go(), "build", "-trimpath", "-ldflags", "-s -w", "-o", str(to), package]
        run_go(command, module)

    folder = programs_once(cache_of_module("kube-proxy", module), ["kube-proxy"], make)
    return folder / "kube-proxy"


def toolkit() -> Path:
    """The folder with nvidia-container-runtime and nvidia-cdi-hook; raises `BuildError`."""

    def make(name: str, to: Path) -> None:
        package = f"github.com/NVIDIA/nvidia-container-toolkit/cmd/{name}"
        command = [usable_go(), "build", *UNOPTIMIZED, "-o", str(to), package]
        run_go(command, _TOOLKIT, CGO_ENABLED="1")

    names = ("nvidia-container-runtime", "nvidia-cdi-hook")
    folder = cache_of_module("toolkit", _TOOLKIT)
    return programs_once(folder, names, make)


def pause(folder: Path) -> Path:
    """The archive of an image of one static program that sleeps; raises `BuildError`."""
    root = folder / "pause"
    root.mkdir()
    run("gcc", "-static", "-O2", "-o", root / "pause", _HERE / "pause.c")
    layer = _layer(folder / "pause-layer.tar", root)
    return _archive(
        folder / "pause.tar",
        PAUSE,
        layers=[layer],
        config={"Entrypoint": ["/pause"]},
    )


def image(folder: Path) -> Path:
    """The archive of Toposcope's image, as image/assemble.sh makes it of this tree on a minimal Debian."""
    lower = base()
    program = _assemble(lower / "root", "program", folder)
    config = (_HERE / "image.yaml").read_text(encoding="utf-8")
    return _archive(
        folder / "toposcope.tar",
        IMAGE,
        layers=[lower / "base.tar", program],
        config=yaml.load(config, yaml.CSafeLoader),
    )


def base() -> Path:
    """The folder with the lower layer, base.tar, and the root that it is made of; raises `BuildError`."""

    def is_kept(folder: Path) -> bool:
        return (folder / "base.tar").is_file()

    folder = cache_root() / "e2e-base" / _recipe()
    return made_once(folder, is_kept, _make_base)


def _recipe() -> str:
    """A digest of everything the lower layer depends on."""
    recipe = _SUITE + _USED
    recipe += _IN_ROOT.read_text(encoding="utf-8")
    for name in ("runtime.lock", "build.lock", "assemble.sh"):
        part = ROOT / "image" / name
        recipe += part.read_text(encoding="utf-8")
    digest = hashlib.sha256(recipe.encode())
    return digest.hexdigest()[:16]


def _make_base(made: Path) -> None:
    """A root with Python and everything that Toposcope depends on, and the layer of it."""
    root = made / "root"
    run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_USED}", _SUITE, root)
    _in_root(root, "dependencies")
    # As in the Dockerfile's last stage.
    skipped = "/(idlelib|lib2to3|pydoc_data|site-packages|test|tkinter|turtledemo|dist-packages)/"
    compileall = "python3 -m compileall -q -o 2 -j 0 --invalidation-mode unchecked-hash"
    run("chroot", root, *compileall.split(), "-x", skipped, "/usr/lib/python3.13")
    run("find", root, "-xdev", "-type", "f", "-perm", "/6000", "-exec", "chmod", "a-s", "{}", "+")
    for unused in _UNUSED:
        shutil.rmtree(root / unused, ignore_errors=True)
    _layer(made / "base.tar", root)


def _assemble(lower: Path, step: str, scratch: Path) -> Path:
    """Run a step on top of a root that stays as it is; what it adds, changes and removes is the layer."""
    upper = scratch / "upper"
    work = scratch / "work"
    merged = scratch / "merged"
    for folder in (upper, work, merged):
        folder.mkdir()
    mount: list[str | Path] = [
        "mount",
        "-t",
        "overlay",
        "overlay",
        "-o",
        f"lowerdir={lower},upperdir={upper},workdir={work}",
        merged,
    ]
    _in_root(merged, step, before=mount)
    _whiteouts(upper)
    return _layer(scratch / f"{step}.tar", upper)


def _in_root(root: Path, step: str, before: Sequence[str | Path] = ()) -> None:
    """image/assemble.sh inside of a root, which for so long has this machine's resolver and certificates."""
    run(
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "sh",
        _IN_ROOT,
        root,
        ROOT,
        step,
        *before,
    )


def _whiteouts(upper: Path) -> None:
    """Name what was removed as layers do: overlayfs marks it with a device 0/0."""
    paths = list(upper.rglob("*"))
    for path in paths:
        if path.is_symlink() or not path.is_char_device():
            continue
        path.unlink()
        marker = path.parent / f".wh.{path.name}"
        marker.touch()


def _layer(archive: Path, root: Path) -> Path:
    run(
        "tar",
        "-C",
        root,
        "--numeric-owner",
        "--sort=name",
        f"--exclude=./{_PREFIX}.tools",
        "--exclude=./src",
        "--exclude=./proc/*",
        "--exclude=./dev/*",
        "--exclude=./tmp/*",
        "-cf",
        archive,
        ".",
    )
    return archive


def _archive(archive: Path, name: str, layers: list[Path], config: dict[str, Any]) -> Path:
    """A `docker save` archive, which containerd imports."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        folder = Path(scratch)
        names = []
        digests = []
        for number, layer in enumerate(layers):
            link = folder / f"{number}.tar"
            link.symlink_to(layer)
            names.append(link.name)
            with layer.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256")
            digests.append(f"sha256:{digest.hexdigest()}")

        document = {
            "architecture": "amd64",
            "os": "linux",
            "config": config,
            "rootfs": {
                "type": "layers",
                "diff_ids": digests,
            },
            "history": [{"created_by": "tests/e2e"}] * len(layers),
        }
        manifest = {
            "Config": "config.json",
            "RepoTags": [name],
            "Layers": names,
        }
        (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
        (folder / "manifest.json").write_text(json.dumps([manifest]), encoding="utf-8")
        run(
            "tar",
            "-C",
            folder,
            "--dereference",
            "-cf",
            archive,
            "manifest.json",
            "config.json",
            *names,
        )
    return archive


def run(*command: str | Path) -> None:
    """Run a command that must succeed; raises `BuildError`."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        begin = " ".join(map(str, command[:3]))
        output = done.stdout[-500:] + done.stderr[-1500:]
        raise BuildError(f"{begin} ... failed:\n{output}")


def run_line(line: str) -> None:
    """Run a command without spaces in its words, which must succeed; raises `BuildError`."""
    run(*line.split())
