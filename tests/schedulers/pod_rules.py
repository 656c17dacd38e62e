"""Random rules between pods: affinity, anti-affinity, spread and host ports, of Jobs and of pods that run."""

import random
from typing import Final

from tests.schedulers.clusters import BLOCK, HOST, RACK, Cluster, Object, plain_job

_KEYS: Final = (BLOCK, RACK, RACK, HOST, "pool")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def ruled_cluster(rng: random.Random, cluster: Cluster) -> Cluster:
    """The cluster with labels on the pods that run, of which some keep others away or take ports."""
    pods = []
    for pod in cluster.pods:
        labels = {"team": rng.choice("abc")}
        spec = dict(pod["spec"])
        if rng.random() < 0.2:
            spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [_term(rng, {"team": rng.choice("abc")})]}}
        if rng.random() < 0.3:
            spec["containers"] = [_with_port(rng, spec["containers"][0])]
        pods.append({**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec})
    return Cluster(cluster.nodes, pods)


def ruled_job(rng: random.Random, name: str) -> Object:
    """A Job whose pods have one or two rules about each other, or about those that run."""
    job = plain_job(rng, name)
    template = job["spec"]["template"]
    template["metadata"]["labels"] = {"team": rng.choice("abc"), "job": name}
    spec = template["spec"]
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        _add_rule(rng, spec, {"job": name})
    return job


def _add_rule(rng: random.Random, spec: Object, own: dict[str, str]) -> None:
    affinity = spec.setdefault("affinity", {})
    match rng.choice(("affinity", "affinity", "anti", "anti", "spread", "spread", "port")):
        case "affinity":
            labels = own if rng.random() < 0.7 else {"team": rng.choice("abc")}
            affinity["podAffinity"] = {_REQUIRED: [_term(rng, labels)]}
        case "anti":
            labels = own if rng.random() < 0.7 else {"team": rng.choice("abc")}
            affinity["podAntiAffinity"] = {_REQUIRED: [_term(rng, labels)]}
        case "spread":
            spec["topologySpreadConstraints"] = [_spread(rng, own)]
        case "port":
            spec["containers"] = [_with_port(rng, spec["containers"][0])]


def _term(rng: random.Random, labels: dict[str, str]) -> Object:
    term: Object = {"topologyKey": rng.choice(_KEYS), "labelSelector": {"matchLabels": labels}}
    if rng.random() < 0.2:
        term["namespaceSelector"] = {}
    if "team" not in labels and rng.random() < 0.2:
        term["matchLabelKeys"] = ["team"]
    return term


def _spread(rng: random.Random, labels: dict[str, str]) -> Object:
    spread: Object = {
        "maxSkew": rng.choice((1, 1, 2, 4)),
        "topologyKey": rng.choice(_KEYS),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    if rng.random() < 0.3:
        spread["minDomains"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        spread["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
    if rng.random() < 0.3:
        spread["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
    return spread


def _with_port(rng: random.Random, container: Object) -> Object:
    port: Object = {"containerPort": 80, "hostPort": rng.choice((80, 90))}
    if rng.random() < 0.3:
        port["hostIP"] = rng.choice(("10.0.0.1", "10.0.0.2"))
    if rng.random() < 0.2:
        port["protocol"] = "UDP"
    return {**container, "ports": [port]}
