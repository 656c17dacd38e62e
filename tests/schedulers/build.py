"""Build the schedulers that `check` is held to: kube-scheduler from tests/apiserver's modules, Kueue from its own."""

from pathlib import Path
from typing import Any, Final

import yaml
from tools.apiserver.build import UNOPTIMIZED, cache_of_module, kubernetes_program, made_once, run_go, usable_go

_KUEUE: Final = Path(__file__).parent / "kueue"
_CRDS: Final = "crds.yaml"
_WEBHOOKS: Final = "webhooks.yaml"


def kube_scheduler() -> Path:
    """The program of this run's Kubernetes, built once; raises `BuildError`."""
    return kubernetes_program("kube-scheduler")


def kube_controller_manager() -> Path:
    """The program of this run's Kubernetes, built once; raises `BuildError`."""
    return kubernetes_program("kube-controller-manager")


class Kueue:
    """Kueue's program with its CRDs and webhook configurations, all of the pinned module."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "kueue"
        self.crds: list[dict[str, Any]] = list(_documents(folder / _CRDS))
        self.webhooks: list[dict[str, Any]] = list(_documents(folder / _WEBHOOKS))


def kueue() -> Kueue:
    """Eight minutes of CPU the first time; raises `BuildError`."""
    folder = cache_of_module("kueue", _KUEUE)
    return Kueue(made_once(folder, _is_complete, _make_kueue))


def _is_complete(folder: Path) -> bool:
    return (folder / _WEBHOOKS).is_file()


def _make_kueue(made: Path) -> None:
    go = usable_go()
    command = [go, "build", *UNOPTIMIZED, "-o", str(made / "kueue"), "sigs.k8s.io/kueue/cmd/kueue"]
    # The checksum database does not know this one, a pre-release of Kueue's own; go.sum pins it.
    run_go(command, _KUEUE, GONOSUMDB="sigs.k8s.io/scheduler-library")

    kueue_source = _source(go, "sigs.k8s.io/kueue")
    jobset_source = _source(go, "sigs.k8s.io/jobset")
    crds = []
    for source in (kueue_source, jobset_source):
        bases = source / "config" / "components" / "crd" / "bases"
        for path in sorted(bases.glob("*.yaml")):
            crds.append(path.read_text(encoding="utf-8"))
    (made / _CRDS).write_text("---\n".join(crds), encoding="utf-8")

    webhooks = kueue_source / "config" / "components" / "webhook" / "manifests.yaml"
    (made / _WEBHOOKS).write_bytes(webhooks.read_bytes())


def _source(go: str, module: str) -> Path:
    return Path(run_go([go, "list", "-m", "-f", "{{.Dir}}", module], _KUEUE).strip())


def _documents(path: Path) -> list[dict[str, Any]]:
    documents = []
    for document in yaml.load_all(path.read_bytes(), yaml.CSafeLoader):
        if document:
            documents.append(document)
    return documents
