"""The components unique-values and slinky on a real API server: what agent and controller do with their own tokens."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, apply_folder, built, install, write_overlay
from tests.support.api import NODES, ApiUnderTest, node, pod_token, wait_until
from toposcope.api.label_keys import SLINKY
from toposcope.cli.main import main
from toposcope.integrations.node_plan import CONFIG_MAP

pytestmark = pytest.mark.slow

RACKS = "gpu.topology/unique-rack"
PLACE = {
    "topology.kubernetes.io/zone": "z",
    "cloud.google.com/gce-topology-block": "b1",
    "cloud.google.com/gce-topology-subblock": "r1",
}
UNIT = "cluster-tree:r1,cluster-block:r1"
NAMES = ("n1", "n2")
PLAN = f"{NAMESPACE}/configmaps/{CONFIG_MAP}"

Run = Callable[[], None]


@pytest.fixture
def cluster(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> ApiUnderTest:
    """Two Nodes of one rack, and the base with both components."""
    install(api, kubectl)
    overlay = write_overlay((tmp_path / "overlay").resolve(), ("slinky", "unique-values"))
    apply_folder(api, kubectl, overlay)
    for name in NAMES:
        document = node(
            name,
            labels={**PLACE, "kubernetes.io/hostname": name},
            annotations={"example.com/note": "keep"},
        )
        api.create(NODES, document)
    return api


@pytest.fixture
def run(cluster: ApiUnderTest, kubectl: str, tmp_path: Path) -> Run:
    """One pass of everybody, each with the token of its own pod."""
    overlay = write_overlay((tmp_path / "again").resolve(), ("slinky", "unique-values"))
    manifests = built(kubectl, overlay)

    def kubeconfig_of(pod: dict[str, Any]) -> Path:
        created = cluster.create(f"{NAMESPACE}/pods", pod)
        token = pod_token(cluster, created)
        if pod["spec"].get("nodeName"):
            wait_until(
                lambda: cluster.ask("GET", PLAN, token=token).code == 404,
                "an agent may read the plan",
            )
        folder = tmp_path / pod["metadata"]["name"]
        folder.mkdir()
        return rights.kubeconfig_with(cluster, token, folder)

    controller = kubeconfig_of(manifests.pod("controller", "a-controller"))
    agents = {}
    for name in NAMES:
        pod = manifests.pod("agent", f"agent-{name}", nodeName=name)
        agents[name] = kubeconfig_of(pod)

    def run_controller() -> None:
        status = main(["controller", "--once", "--kubeconfig", str(controller)])
        assert status == 0

    def once() -> None:
        run_controller()
        for name, kubeconfig in agents.items():
            status = rights.run_agent(name, kubeconfig, "--unique-values", "--slinky")
            assert status == 0
        run_controller()

    return once


def ask(api: ApiUnderTest, **spec: Any) -> None:
    spec["gracePeriod"] = "0s"
    api.patch(f"{rights.TOPOLOGIES}/cluster", {"spec": spec})


def carried(api: ApiUnderTest, name: str) -> tuple[str | None, str | None]:
    """The unique value and Slinky's annotation of a Node."""
    found = api.get(f"{NODES}/{name}")
    labels = found["metadata"]["labels"]
    annotations = found["metadata"]["annotations"]
    return labels.get(RACKS), annotations.get(SLINKY)


def versions(api: ApiUnderTest) -> list[str]:
    """The resource versions of both Nodes."""
    found = []
    for name in NAMES:
        metadata = api.get(f"{NODES}/{name}")["metadata"]
        found.append(metadata["resourceVersion"])
    return found


def reasons(api: ApiUnderTest) -> dict[str, str]:
    """The reasons of the conditions about what agents write."""
    topology = api.get(f"{rights.TOPOLOGIES}/cluster")
    found = {}
    for condition in topology["status"]["conditions"]:
        kind = condition["type"]
        if kind in {"UniqueValuesWritten", "SlinkyAnnotated"}:
            found[kind] = condition["reason"]
    return found


@pytest.mark.real_api("the admission policies")
def test_agents_write_what_is_asked_for_and_take_it_back(
    cluster: ApiUnderTest, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    api = cluster
    ask(api, uniqueValues=["rack"], publish={"slinky": "Auto"})
    run()
    run()  # the levels are known once agents have labelled their nodes
    assert carried(api, "n1") == ("z.b1.r1", UNIT)
    assert carried(api, "n2") == ("z.b1.r1", UNIT)
    assert reasons(api) == {
        "UniqueValuesWritten": "InSync",
        "SlinkyAnnotated": "InSync",
    }

    before = versions(api)
    run()
    assert versions(api) == before

    ask(api, uniqueValues=[], publish={"slinky": "Never"})
    run()
    assert carried(api, "n1") == (None, None)
    assert carried(api, "n2") == (None, None)
    complaints = []
    for record in caplog.records:
        if record.name == "agent" and record.levelno > logging.INFO:
            complaints.append(record)
    assert complaints == []


@pytest.mark.real_api("the admission policies")
def test_agents_take_over_what_a_former_controller_wrote(cluster: ApiUnderTest, run: Run) -> None:
    """By a merge patch of labels and an apply of the annotation, both as the field manager toposcope-controller."""
    api = cluster
    write_as_former_controller(api, "n1", "z.b1.r1", UNIT)
    write_as_former_controller(api, "n2", "z.b9.r9", "cluster-tree:r9")

    ask(api, uniqueValues=["rack"], publish={"slinky": "Auto"})
    run()
    run()
    assert carried(api, "n1") == ("z.b1.r1", UNIT)
    assert carried(api, "n2") == ("z.b1.r1", UNIT)

    ask(api, uniqueValues=[], publish={"slinky": "Never"})
    run()
    assert carried(api, "n1") == (None, None)
    assert carried(api, "n2") == (None, None)


def write_as_former_controller(api: ApiUnderTest, name: str, unique_rack: str, unit: str) -> None:
    path = f"{NODES}/{name}"
    api.patch(
        f"{path}?fieldManager=toposcope-controller",
        {"metadata": {"labels": {RACKS: unique_rack}}},
    )
    annotated = node(name, annotations={SLINKY: unit})
    code, answer = api.apply(path, annotated, "toposcope-controller")
    assert code == 200, answer
