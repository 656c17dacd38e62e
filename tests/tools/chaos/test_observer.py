"""The observer on a server, real and embedded, with somebody who plants what it must find."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import ApiUnderTest, node, wait_until
from tests.support.tables import each_case
from tools.chaos.cluster import BEAT, KAI, NODES
from tools.chaos.machines import Machine
from tools.chaos.observer import Observer, TopologyRules
from tools.chaos.violations import Findings
from toposcope.simulator import manifests

PATH = f"{NODES}/n1"
DOMAIN = "gpu.topology/nvlink-domain"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("n1", "l40s-4", 4, tmp_path / "faults.yaml")


@pytest.fixture
def findings() -> Findings:
    return Findings()


@pytest.fixture
def watched(api: ApiUnderTest, machine: Machine, findings: Findings) -> Iterator[ApiUnderTest]:
    """A Node as the agent of a whole machine leaves it, an object of somebody else's, and the observer."""
    api.install_crd(manifests.kai_topology_crd())
    labels = {**machine.healthy, "example.com/pool": "a"}
    annotations = {"example.com/note": "keep", BEAT: "0"}
    spec = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    made = api.create(NODES, {**node("n1", labels=labels, annotations=annotations), "spec": spec})
    kai = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "foreign"}}
    observer = Observer(api, [machine], findings)
    observer.nodes.plant(made)
    observer.objects[KAI].plant(api.create(KAI, {**kai, "spec": {"levels": [{"nodeLabel": "a"}]}}))
    with observer:
        wait_until(lambda: findings.checks["labels"] > 0 and findings.checks["foreign"] > 1, "both were seen")
        assert findings.take() == []
        yield api


def found(findings: Findings, words: str) -> bool:
    """Whether a violation is found in these words."""
    seen: list[str] = []

    def is_found() -> bool:
        seen.extend(map(str, findings.take()))
        return any(words in text for text in seen)

    wait_until(is_found, f"{words} is found")
    return True


PLANTED: tuple[tuple[str, dict[str, Any], str], ...] = (
    (PATH, {"metadata": {"labels": {DOMAIN: None}}}, f"labels: node n1: {DOMAIN} (n1) disappeared"),
    (PATH, {"metadata": {"labels": {"gpu.topology/gpus": "3"}}}, "labels: node n1: gpu.topology/gpus became '3'"),
    (PATH, {"metadata": {"labels": {"gpu.topology/state": "unknown"}}}, "state became 'unknown' without evidence"),
    (PATH, {"metadata": {"labels": {"example.com/pool": "b"}}}, "foreign: node n1: labels were"),
    (PATH, {"metadata": {"annotations": {"example.com/note": None}}}, "foreign: node n1: annotations were"),
    (PATH, {"spec": {"taints": None}}, "foreign: node n1: spec were"),
    (f"{KAI}/foreign", {"spec": {"levels": [{"nodeLabel": "b"}]}}, f"foreign: {KAI}/foreign became"),
)


def test_what_is_planted_is_found(watched: ApiUnderTest, findings: Findings) -> None:
    watched.patch(PATH, {"metadata": {"annotations": {BEAT: "1"}}})  # which changes all the time
    for path, body, words in PLANTED:
        assert not any(words in str(violation) for violation in findings.take())
        watched.patch(path, body)
        assert found(findings, words)
    watched.request("DELETE", f"{KAI}/foreign")
    assert found(findings, "foreign was deleted")


def test_evidence_counts(watched: ApiUnderTest, findings: Findings, machine: Machine) -> None:
    machine.set_faults("lost: [1]")
    machine.now.silent = True
    watched.patch(PATH, {"metadata": {"labels": {"gpu.topology/gpus": "3", "gpu.topology/state": "unknown"}}})
    # A new Node of the name carries nothing yet, and that is no disappearance.
    watched.request("DELETE", PATH)
    seen = findings.checks["labels"]
    labels = {"example.com/pool": "a"}
    metadata = {"labels": labels, "annotations": {"example.com/note": "keep"}}
    watched.create(NODES, {**node("n1", **metadata), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    wait_until(lambda: findings.checks["labels"] > seen, "the new Node was seen")
    assert [violation for violation in findings.take() if violation.invariant == "labels"] == []


def test_a_round_ends_and_its_evidence_with_it(machine: Machine) -> None:
    machine.set_faults("lost: [1]")
    assert machine.may_say("gpu.topology/gpus", "3")
    machine.forget()
    assert machine.may_say("gpu.topology/gpus", "3"), "its last write may be under way"
    machine.forget()
    assert not machine.may_say("gpu.topology/gpus", "3")


@each_case("tables/tools.yaml")
def test_a_status_that_is_not_so_is_found(findings: Findings, status: dict[str, Any], says: str) -> None:
    rules = TopologyRules(findings)
    rules.levels["cluster"] = ["rack", "host"]
    rules.seen({"metadata": {"name": "cluster"}, "status": status})
    assert says in str(findings.take()[0])
