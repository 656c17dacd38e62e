"""The components unique-values and slinky on a real API server: what agent and controller do with their own tokens."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.manifests import rights
from tests.manifests.support import NAMESPACE, built, install, run_kubectl, write_overlay
from tests.support.api import NODES, ApiUnderTest, node, pod_token, wait_until
from toposcope.api.label_keys import SLINKY
from toposcope.cli.main import main
from toposcope.integrations.node_plan import CONFIG_MAP

RACKS, RACK = "gpu.topology/unique-rack", "cloud.google.com/gce-topology-subblock"
PLACE = {"topology.kubernetes.io/zone": "z", "cloud.google.com/gce-topology-block": "b1", RACK: "r1"}
UNIT = "cluster-tree:r1,cluster-block:r1"
NAMES = ("n1", "n2")
PLAN = f"{NAMESPACE}/configmaps/{CONFIG_MAP}"

Run = Callable[[], None]


@pytest.fixture
def cluster(api: ApiUnderTest, kubectl: str, tmp_path: Path) -> ApiUnderTest:
    """Two Nodes of one rack, and the base with both components."""
    install(api, kubectl)
    overlay = write_overlay((tmp_path / "overlay").resolve(), ("slinky", "unique-values"))
    run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, "apply", "--server-side", "-k", overlay)
    for name in NAMES:
        labels = {**PLACE, "kubernetes.io/hostname": name}
        api.create(NODES, node(name, labels=labels, annotations={"example.com/note": "keep"}))
    return api


@pytest.fixture
def run(cluster: ApiUnderTest, kubectl: str, tmp_path: Path) -> Run:
    """One pass of everybody, each with the token of its own pod."""
    overlay = built(kubectl, write_overlay((tmp_path / "again").resolve(), ("slinky", "unique-values")))
    configs: dict[str, Path] = {}
    tokens: dict[str, str] = {}
    for name in (*NAMES, "controller"):
        program = "controller" if name == "controller" else "agent"
        where = {} if program == "controller" else {"nodeName": name}
        pod = cluster.create(f"{NAMESPACE}/pods", overlay.pod(program, f"{program}-{name}", **where))
        tokens[name] = pod_token(cluster, pod)
        folder = tmp_path / name
        folder.mkdir()
        configs[name] = rights.kubeconfig_with(cluster, tokens[name], folder)
    wait_until(lambda: cluster.request("GET", PLAN, token=tokens["n1"])[0] == 404, "an agent may read the plan")

    def once() -> None:
        assert main(["controller", "--once", "--kubeconfig", str(configs["controller"])]) == 0
        for name in NAMES:
            assert rights.run_agent(name, configs[name], "--unique-values", "--slinky") == 0
        assert main(["controller", "--once", "--kubeconfig", str(configs["controller"])]) == 0

    return once


def ask(api: ApiUnderTest, **spec: Any) -> None:
    api.patch(f"{rights.TOPOLOGIES}/cluster", {"spec": {"gracePeriod": "0s", **spec}})


def carried(api: ApiUnderTest, name: str) -> tuple[str | None, str | None]:
    """The unique value and Slinky's annotation of a Node."""
    metadata = api.get(f"{NODES}/{name}")["metadata"]
    unique_rack = metadata["labels"].get(RACKS)
    return unique_rack, metadata["annotations"].get(SLINKY)


def versions(api: ApiUnderTest) -> list[str]:
    """The resource versions of both Nodes."""
    nodes = [api.get(f"{NODES}/{name}") for name in NAMES]
    return [node["metadata"]["resourceVersion"] for node in nodes]


def reasons(api: ApiUnderTest) -> dict[str, str]:
    """The reasons of the conditions about what agents write."""
    status = api.get(f"{rights.TOPOLOGIES}/cluster")["status"]
    found = {}
    for condition in status["conditions"]:
        if condition["type"] in {"UniqueValuesWritten", "SlinkyAnnotated"}:
            found[condition["type"]] = condition["reason"]
    return found


@pytest.mark.real_api("the admission policies")
def test_agents_write_what_is_asked_for_and_take_it_back(
    cluster: ApiUnderTest, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    api = cluster
    ask(api, uniqueValues=["rack"], publish={"slinky": "Auto"})
    run()
    run()  # the levels are known once agents have labelled their nodes
    assert [carried(api, name) for name in NAMES] == [("z.b1.r1", UNIT)] * 2
    assert reasons(api) == {"UniqueValuesWritten": "InSync", "SlinkyAnnotated": "InSync"}
    before = versions(api)
    run()
    assert versions(api) == before
    ask(api, uniqueValues=[], publish={"slinky": "Never"})
    run()
    assert [carried(api, name) for name in NAMES] == [(None, None)] * 2
    complaints = [record for record in caplog.records if record.levelno > logging.INFO]
    assert [record for record in complaints if record.name == "agent"] == []


@pytest.mark.real_api("the admission policies")
def test_agents_take_over_what_a_former_controller_wrote(cluster: ApiUnderTest, run: Run) -> None:
    """By a merge patch of labels and an apply of the annotation, both as the field manager toposcope-controller."""
    api = cluster
    for name, value in (("n1", "z.b1.r1"), ("n2", "z.b9.r9")):
        path = f"{NODES}/{name}"
        api.patch(f"{path}?fieldManager=toposcope-controller", {"metadata": {"labels": {RACKS: value}}})
        unit = UNIT if name == "n1" else "cluster-tree:r9"
        assert api.apply(path, node(name, annotations={SLINKY: unit}), "toposcope-controller")[0] == 200
    ask(api, uniqueValues=["rack"], publish={"slinky": "Auto"})
    run()
    run()
    assert [carried(api, name) for name in NAMES] == [("z.b1.r1", UNIT)] * 2
    ask(api, uniqueValues=[], publish={"slinky": "Never"})
    run()
    assert [carried(api, name) for name in NAMES] == [(None, None)] * 2
