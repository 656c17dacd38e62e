"""`python -m charts FOLDER`: write the Helm chart there. Needs kubectl, which renders the kustomize base."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tools.chart.templates import OPTIONS, pruning, template, woven
from toposcope import __version__

MANIFESTS = Path(__file__).parents[2] / "manifests"
FILES = Path(__file__).parents[2] / "manifests" / "chart"


def rendered(*components: str) -> str:
    """What kustomize makes of the base with these components."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        overlay = {
            "resources": [os.path.relpath(MANIFESTS / "base", folder)],
            "components": [os.path.relpath(MANIFESTS / "components" / component, folder) for component in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")
        return kustomize(folder)


def kustomize(folder: Path) -> str:
    """What kustomize makes of a folder."""
    command = ["kubectl", "kustomize", str(folder)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - no shell


def variants() -> dict[str, str]:
    """What kustomize makes of the base with each component."""
    return {option: rendered(option) for option in OPTIONS}


def write(folder: Path) -> None:
    """Write the chart into a folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FILES, folder)
    versions = {"version": __version__, "appVersion": __version__}
    chart = yaml.safe_load((FILES / "Chart.yaml").read_text(encoding="utf-8")) | versions
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart, sort_keys=False), encoding="utf-8")
    shutil.copytree(MANIFESTS / "crds", folder / "crds", ignore=shutil.ignore_patterns("kustomization.yaml"))
    files = {name: template(pieces) for name, pieces in woven(rendered(), variants()).items()}
    for name, text in (files | pruning(kustomize(MANIFESTS / "prune"))).items():
        (folder / "templates" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != len(("program", "folder")):
        sys.exit("usage: python -m charts FOLDER")
    write(Path(sys.argv[1]))
