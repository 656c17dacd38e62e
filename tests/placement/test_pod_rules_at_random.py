"""Rules between pods on few nodes, drawn from a seed: `check` says what every order and every choice leads to."""

import random
from collections import Counter
from typing import Any

import pytest
from tests.placement.pods_one_by_one import GPU, REQUIRED, Object, reachable
from tests.support.checking import check

CASES = 150
KEYS = ("zone", "clique", "kubernetes.io/hostname")


def node(rng: random.Random, number: int) -> Object:
    name = f"n{number}"
    labels = {"kubernetes.io/hostname": name, "clique": rng.choice("abc"), "pool": rng.choice("xy")}
    if rng.random() < 0.9:
        labels["zone"] = rng.choice("pq")
    allocatable = {"cpu": "64", "pods": "110", GPU: str(rng.choice((0, 1, 2, 4)))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def selector(rng: random.Random) -> Object:
    return {"matchLabels": {"app": rng.choice(("one", "one", "two", "other"))}}


def term(rng: random.Random) -> Object:
    drawn = {"topologyKey": rng.choice(KEYS), "labelSelector": selector(rng)}
    if rng.random() < 0.2:
        drawn["namespaceSelector"] = {}
    return drawn


def rules(rng: random.Random, *, most: int = 2) -> Object:
    """What a pod spec says of other pods."""
    spec: Object = {}
    affinity: Object = {}
    for _ in range(rng.randint(0, most)):
        match rng.choice(("affinity", "anti", "anti", "spread", "port")):
            case "affinity":
                affinity["podAffinity"] = {REQUIRED: [term(rng) for _ in range(rng.choice((1, 1, 2)))]}
            case "anti":
                affinity["podAntiAffinity"] = {REQUIRED: [term(rng)]}
            case "spread":
                spec["topologySpreadConstraints"] = [spread(rng)]
            case "port":
                spec["ports"] = [{"containerPort": 80, "hostPort": rng.choice((80, 90))}]
    return {**spec, "affinity": affinity} if affinity else spec


def spread(rng: random.Random) -> Object:
    drawn: Object = {
        "maxSkew": rng.choice((1, 1, 2)),
        "topologyKey": rng.choice(KEYS),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector(rng),
    }
    if rng.random() < 0.3:
        drawn["minDomains"] = rng.randint(1, 3)
    return drawn


def spec_of(drawn: Object, gpus: int) -> Object:
    container: Object = {"name": "c", "resources": {"limits": {GPU: str(gpus)}}}
    rest = dict(drawn)
    if "ports" in rest:
        container["ports"] = rest.pop("ports")
    return {**rest, "containers": [container]}


def running(rng: random.Random, number: int, on: Object) -> Object:
    metadata = {
        "name": f"r{number}",
        "namespace": rng.choice(("default", "default", "else")),
        "labels": {"app": rng.choice(("one", "two", "other"))},
    }
    drawn = rules(rng, most=1) if rng.random() < 0.5 else {}
    drawn.pop("topologySpreadConstraints", None)
    spec = {**spec_of(drawn, 0), "nodeName": on["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def job_of_roles(roles: list[tuple[str, int, Object]]) -> Object:
    """An MPIJob: a role, the number of its pods and their spec."""
    specs: Object = {}
    for role, replicas, spec in roles:
        template = {"metadata": {"labels": {"app": role}}, "spec": spec}
        specs[role] = {"replicas": replicas, "template": template}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"mpiReplicaSpecs": specs},
    }


def pods_of(role: str, replicas: int, spec: Object) -> list[Object]:
    pod = {"metadata": {"namespace": "default", "labels": {"app": role}}, "spec": spec}
    return [pod] * replicas


def expected(nodes: list[Object], before: list[Object], pods: list[Object]) -> str:
    now = reachable(nodes, before, pods)
    if now.can_succeed:
        return "unclear" if now.can_fail else "fits"
    return "refused"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_check_says_what_every_order_leads_to(seed: int) -> None:
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for _ in range(CASES):
        nodes = [node(rng, number) for number in range(rng.randint(1, 4))]
        before = [running(rng, number, rng.choice(nodes)) for number in range(rng.randint(0, 3))]
        roles = [("one", rng.randint(1, 4), spec_of(rules(rng), 1))]
        if rng.random() < 0.4:
            roles.append(("two", rng.randint(1, 2), spec_of(rules(rng), 1)))
        pods: list[Any] = []
        for role in roles:
            pods += pods_of(*role)

        answer = check(job_of_roles(roles), [*nodes, *before]).verdict
        wanted = expected(nodes, before, pods)
        head = answer.partition(":")[0]
        outcomes[wanted] += 1
        known = {"fits": "fits", "unclear": "unclear", "cannot fit": "refused", "does not fit now": "refused"}
        assert known[head] == wanted, (answer, nodes, before, roles)
        if head == "cannot fit" and before:
            assert not reachable(nodes, [], pods).can_succeed, (answer, nodes, before, roles)
    assert {"fits", "unclear", "refused"} <= outcomes.keys()
