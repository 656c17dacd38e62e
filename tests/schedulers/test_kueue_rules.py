"""What decides in Kueue besides quota and room, a rule at a time: `check` says what the real Kueue does."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from tests.schedulers import clusters, play
from tests.schedulers.clusters import BLOCK, GPU, GPU_NODES, HOST, RACK, Object, made
from tests.support.api import ApiUnderTest
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

pytestmark = pytest.mark.slow

QUEUE: Final = "rules"
ROOM: Final = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "8", "example.com/share": "8"}
CREDIT: Final = "example.com/credit"
"""What the transformation in kueue.yaml makes of example.com/share: 2 for each."""


def node(name: str, *, rack: str, pool: str) -> Object:
    """A Ready node with 8 GPUs in block b0."""
    labels = {HOST: name, BLOCK: "b0", RACK: rack, GPU_NODES: "true", "pool": pool}
    condition = {"type": "Ready", "status": "True", "reason": "Kubelet", "message": ""}
    status = {"allocatable": ROOM, "capacity": ROOM, "conditions": [condition]}
    return made("Node", name, {"taints": []}, labels=labels, status=status)


NODES: Final = [
    node("n0", rack="r0", pool="a"),
    node("n1", rack="r0", pool="a"),
    node("n2", rack="r1", pool="b"),
]
BLOCKS: Final = made("Topology", "blocks", {"levels": [{"nodeLabel": BLOCK}]})


def flavor(name: str, *, pool: str = "", topology: str = "cluster") -> Object:
    """A flavor of the nodes of a pool, or of all; `topology` may be empty."""
    spec: Object = {"nodeLabels": {"pool": pool} if pool else {GPU_NODES: "true"}}
    if topology:
        spec["topologyName"] = topology
    return made("ResourceFlavor", name, spec)


def cluster_queue(*flavors: str, **spec: Any) -> Object:
    """A ClusterQueue with much of everything in these flavors."""
    quotas = {"cpu": "1000", "memory": "10Ti", GPU: "100", CREDIT: "8"}
    resources = [{"name": name, "nominalQuota": quota} for name, quota in quotas.items()]
    entries = [{"name": name, "resources": resources} for name in flavors]
    group = {"coveredResources": list(quotas), "flavors": entries}
    return made("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": [group], **spec})


LOCAL_QUEUE: Final = made("LocalQueue", QUEUE, {"clusterQueue": QUEUE})
ONE_FLAVOR: Final = [flavor("rule"), cluster_queue("rule"), LOCAL_QUEUE]


def template(*, gpus: int = 8, shares: int = 0, **annotations: str) -> Object:
    """A pod template; annotations as `required_topology=RACK`."""
    written = {}
    for name, value in annotations.items():
        written[f"kueue.x-k8s.io/podset-{name.replace('_', '-')}"] = value
    limits = {GPU: str(gpus)}
    if shares:
        limits["example.com/share"] = str(shares)
    resources = {"requests": {"cpu": "1"}, "limits": limits}
    container = {"name": "main", "image": "none", "resources": resources}
    spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    return {"metadata": {"annotations": written}, "spec": spec}


def job(name: str, pods: Object, *, count: int = 1, **annotations: str) -> Object:
    """A Job in the queue; annotations as `elastic_job="true"`."""
    written = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"suspend": True, "parallelism": count, "completions": count, "template": pods}
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    return made("Job", name, spec, labels=labels, annotations=written)


def jobset(name: str, **pod_sets: Object) -> Object:
    """A JobSet in the queue with a Job of one pod for each template."""
    jobs = []
    for role, pods in pod_sets.items():
        spec = {"parallelism": 1, "completions": 1, "template": pods}
        jobs.append({"name": role, "replicas": 1, "template": {"spec": spec}})
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    return made("JobSet", name, {"suspend": True, "replicatedJobs": jobs}, labels=labels)


@dataclass(frozen=True)
class Rule:
    """A workload, what Kueue does with it, and what `check` says."""

    workload: Object
    answer: str
    verdict: str
    kueue: list[Object] = field(default_factory=lambda: list(ONE_FLAVOR))


TWO_LEVELS: Final = [
    BLOCKS,
    flavor("coarse", topology="blocks", pool="b"),
    flavor("fine", pool="a"),
    cluster_queue("coarse", "fine"),
    LOCAL_QUEUE,
]
WITH_PLAIN: Final = [
    flavor("fine", pool="a"),
    flavor("plain", pool="b", topology=""),
    cluster_queue("fine", "plain"),
    LOCAL_QUEUE,
]
RULES: Final = [
    Rule(job("one-pod", template(required_topology=HOST)), "placed", "fits"),
    Rule(job("false", template(unconstrained_topology="false")), "pending", "error"),
    Rule(job("true", template(unconstrained_topology="true")), "placed", "fits"),
    Rule(job("elastic-rack", template(required_topology=RACK), elastic_job="true"), "refused", "error"),
    Rule(job("elastic-any", template(unconstrained_topology="true"), elastic_job="true"), "placed", "fits"),
    Rule(
        job("elastic-few", template(), count=2, elastic_job="true", job_min_parallelism="1"),
        "refused",
        "error",
    ),
    Rule(job("lone", template(required_topology=RACK, group_name="g"), count=2), "placed", "fits"),
    Rule(jobset("lone-set", a=template(required_topology=RACK, group_name="g")), "refused", "error"),
    Rule(
        jobset("levels", a=template(required_topology=BLOCK), b=template(required_topology=RACK)),
        "placed",
        "fits",
        TWO_LEVELS,
    ),
    Rule(
        jobset("full", a=template(required_topology=BLOCK), b=template(gpus=9, required_topology=RACK)),
        "pending",
        "never",
        TWO_LEVELS,
    ),
    Rule(jobset("mixed", a=template(required_topology=RACK), b=template()), "placed", "fits", WITH_PLAIN),
    Rule(job("shares", template(gpus=1, shares=4)), "placed", "fits"),
    Rule(job("more-shares", template(gpus=1, shares=5)), "pending", "never"),
    Rule(
        job("stopped", template()),
        "pending",
        "error",
        [flavor("rule"), cluster_queue("rule", stopPolicy="Hold"), LOCAL_QUEUE],
    ),
    Rule(
        job("cycle", template()),
        "pending",
        "error",
        [
            made("Cohort", "below", {"parentName": "above"}),
            made("Cohort", "above", {"parentName": "below"}),
            flavor("rule"),
            cluster_queue("rule", cohortName="below"),
            LOCAL_QUEUE,
        ],
    ),
    Rule(
        job("checked", template()),
        "pending",
        "unclear",
        [
            flavor("rule"),
            cluster_queue("rule", admissionChecksStrategy={"admissionChecks": [{"name": "nowhere"}]}),
            LOCAL_QUEUE,
        ],
    ),
]


@contextmanager
def configured(kueue: ApiUnderTest, objects: list[Object]) -> Iterator[None]:
    """The cluster with these objects of Kueue, the queues last and gone first."""
    play.create(kueue, [*NODES, *objects])
    yield
    play.remove(kueue, [*reversed(objects), *NODES])


def verdict(kueue: ApiUnderTest, folder: Path, objects: list[Object], workload: Object) -> str:
    """What `check` says of the cluster as it is."""
    configuration = yaml.load((Path(__file__).parent / "kueue.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    known = [*NODES, *objects, *clusters.kueue_topologies(), clusters.limit_range(), configuration]
    items = [*known, *play.workloads_of_kueue(kueue)]
    saved = folder / "rule.json"
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    (checked,) = Checker(load_files([str(saved)]), [workload]).check(workload)
    if checked.errors:
        return "error"
    return checked.verdict.kind if checked.verdict else ""


def test_check_agrees_with_kueue_about_each_rule(kueue: ApiUnderTest, folder: Path) -> None:
    expected = []
    seen = []
    for rule in RULES:
        name = rule.workload["metadata"]["name"]
        with configured(kueue, rule.kueue):
            ours = verdict(kueue, folder, rule.kueue, rule.workload)
            answer, _ = play.on_kueue(kueue, rule.workload, flavors=2)
        expected.append((name, rule.answer, rule.verdict))
        seen.append((name, answer, ours))
    assert seen == expected


def test_workload_behind_the_head_of_a_strict_queue_waits(kueue: ApiUnderTest, folder: Path) -> None:
    strict = [flavor("rule"), cluster_queue("rule", queueingStrategy="StrictFIFO"), LOCAL_QUEUE]
    head = job("head", template(required_topology=RACK), count=5)
    late = job("late", template(required_topology=HOST))
    with configured(kueue, strict):
        answer, _ = play.on_kueue(kueue, head, stays=True)
        assert answer == "pending"
        play.pass_creation_of(kueue, head)

        assert verdict(kueue, folder, strict, late) == "full"
        assert play.stays_unanswered(kueue, late)

        play.remove_owned(kueue, head)
        assert verdict(kueue, folder, strict, late) == "fits"
        answer, _ = play.on_kueue(kueue, late)
        assert answer == "placed"
