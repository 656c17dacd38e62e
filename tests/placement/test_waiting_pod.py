"""Why running pods keep a waiting pod from nodes, and which of them do."""

from typing import Any

import pytest
from tests.support.checking import snapshot_of
from toposcope.integrations.framework.pod_rules import Rule
from toposcope.placement.waiting_pod import Followed, Refusal, WaitingPod

pytestmark = pytest.mark.regression

CLIQUE = "nvidia.com/gpu.clique"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, clique: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, CLIQUE: clique}},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    }


def pod(name: str, on: str = "", *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    port = spec.pop("port", None)
    container: dict[str, Any] = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    if port:
        container["ports"] = [{"containerPort": 80, "hostPort": port}]
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def term(key: str, **labels: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def waiting(*pods: dict[str, Any]) -> WaitingPod:
    """The first of these pods, which has no node, in two cliques of two nodes."""
    nodes = [node("a1", "a"), node("a2", "a"), node("b1", "b"), node("b2", "b")]
    snapshot = snapshot_of([*nodes, *pods], {})
    name = pods[0]["metadata"]["name"]
    (own,) = [view for view in snapshot.pods or () if view.name == name]
    return WaitingPod(snapshot, own)


def test_follower_has_to_go_where_its_mate_is() -> None:
    beside = {"podAffinity": {REQUIRED: [term(CLIQUE, rep="w")]}}
    follower = pod("w1", labels={"rep": "w"}, affinity=beside)
    mate = pod("w0", "a1", labels={"rep": "w"}, affinity=beside)
    asked = waiting(follower, mate, pod("o", "a2"))
    assert asked.followed() == (Followed(CLIQUE, "a", nodes=("a1", "a2"), mates=("ml/w0",)),)
    assert asked.refusals() == {"b1": Refusal(Rule.AFFINITY), "b2": Refusal(Rule.AFFINITY)}
    assert asked.refusals()["b1"].says == "didn't match pod affinity rules"


def test_pod_that_must_not_meet_another_is_told_which() -> None:
    alone = {"podAntiAffinity": {REQUIRED: [term(CLIQUE, app="web")]}}
    asked = waiting(pod("w", affinity=alone), pod("web", "b2", labels={"app": "web"}))
    in_the_way = Refusal(Rule.ANTI_AFFINITY, pods=("ml/web",))
    assert asked.refusals() == {"b1": in_the_way, "b2": in_the_way}
    assert asked.followed() == ()


def test_pod_that_must_not_meet_two_others_is_told_which_is_where() -> None:
    alone = {"podAntiAffinity": {REQUIRED: [term(HOST, app="web"), term(CLIQUE, app="db")]}}
    web = pod("web", "a1", labels={"app": "web"})
    db = pod("db", "b2", labels={"app": "db"})
    asked = waiting(pod("w", affinity=alone), web, db)
    assert asked.refusals() == {
        "a1": Refusal(Rule.ANTI_AFFINITY, pods=("ml/web",)),
        "b1": Refusal(Rule.ANTI_AFFINITY, pods=("ml/db",)),
        "b2": Refusal(Rule.ANTI_AFFINITY, pods=("ml/db",)),
    }


def test_pod_that_others_keep_away_is_told_which() -> None:
    lonely = {"podAntiAffinity": {REQUIRED: [term(HOST, app="w")]}}
    asked = waiting(pod("w", labels={"app": "w"}), pod("lonely", "a1", affinity=lonely))
    assert asked.refusals() == {"a1": Refusal(Rule.OTHERS, pods=("ml/lonely",))}


def test_port_that_is_taken_names_the_pod_that_has_it() -> None:
    asked = waiting(pod("w", port=8080), pod("r", "a1", port=8080), pod("s", "a2", port=9090))
    assert asked.refusals() == {"a1": Refusal(Rule.PORTS, pods=("ml/r",))}
