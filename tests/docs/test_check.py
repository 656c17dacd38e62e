"""docs/check.md: each chapter's commands are run on a saved cluster, and print what the page shows."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.clusters import GB200, HOST, RACK, SavedCluster, changed_demo, demo, jobs, two_kinds_with_topology
from tests.docs.guide import SavedShell, as_run, chapter_of, compare
from tests.explain.causes import no_room
from tests.explain.waiting import WaitingCluster
from tests.support.paths import ROOT
from tests.support.saved import Object, saved

pytestmark = pytest.mark.regression

PAGE = ROOT / "docs" / "check.md"
LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "cloud.google.com/gce-topology-block",
    "rack": RACK,
    "nvlink-domain": "gpu.topology/nvlink-domain",
    "host": HOST,
}


def degraded() -> SavedCluster:
    """The demo, with a training on twelve trays and a degraded node."""
    cluster = SavedCluster(faulty=("h200-3",))
    cluster.run("train", GB200[:12], gpus=4)
    cluster.add_topology(required=["rack"])
    return cluster


def busy() -> SavedCluster:
    """The demo with what Toposcope publishes to Grove and KAI, and a pod on a node with eight GPUs."""
    cluster = SavedCluster()
    cluster.run("busy", ["h200-1"], gpus=4)
    cluster.add_topology()
    levels = [{"domain": domain, "key": key} for domain, key in LEVELS.items()]
    cluster.others.append(published("grove.io/v1alpha1", "ClusterTopologyBinding", levels))
    keys = [{"nodeLabel": key} for key in LEVELS.values()]
    cluster.others.append(published("kai.scheduler/v1alpha1", "Topology", keys))
    return cluster


def published(version: str, kind: str, levels: list[dict[str, str]]) -> Object:
    metadata = {"name": "cluster", "uid": kind}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"levels": levels}}


def budgeted() -> SavedCluster:
    """Three Jobs, and a budget for other pods."""
    cluster = jobs()
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "web"}}
    cluster.others.append({**budget, "spec": spec, "status": {"disruptionsAllowed": 1}})
    return cluster


def changed() -> SavedCluster:
    """A rack is gone, two nodes have moved, and a pod runs."""
    cluster = changed_demo()
    cluster.run("one", ["gb200-01"], gpus=4)
    return cluster


CHAPTERS: dict[str, Callable[[], SavedCluster | WaitingCluster]] = {
    "See the cluster": degraded,
    "Check a workload": busy,
    "Explain why a workload waits": no_room,
    "Plan": budgeted,
    "Saved files": changed,
    "Suggest and export": two_kinds_with_topology,
}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_commands_of_a_chapter_print_what_it_shows(
    chapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = chapter_of(PAGE, chapter)
    cluster = tmp_path / "cluster.json"
    cluster.write_text(saved(CHAPTERS[chapter]().objects), encoding="utf-8")
    demo().save(tmp_path / "before.json")
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    compare(PAGE, text, as_run(text, SavedShell(str(cluster), capsys)))


def test_every_command_of_the_page_is_run() -> None:
    run = "".join(chapter_of(PAGE, chapter) for chapter in CHAPTERS)
    assert run.count("```console") == PAGE.read_text(encoding="utf-8").count("```console")
