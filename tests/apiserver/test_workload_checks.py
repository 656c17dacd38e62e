"""What `toposcope check` says of KAI's and Kueue's objects, and what an API server with their CRDs does with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api import ApiUnderTest, create_namespace
from tests.support.upstream_crds import described, upstream_crd
from tests.support.workloads import HOST, KNOWN, RACK, ZONE, Object, job, workload
from toposcope.integrations.framework.system import ClusterFacts
from toposcope.integrations.registry import readings

CRDS = ("kai-topologies-v0.17", "kai-podgroups-v0.17", "kueue-topologies-v0.19", "kueue-resourceflavors-v0.19")
PATHS = {
    ("kai.scheduler", "Topology"): "/apis/kai.scheduler/v1alpha1/topologies",
    ("kueue.x-k8s.io", "Topology"): "/apis/kueue.x-k8s.io/v1beta2/topologies",
    ("kueue.x-k8s.io", "ResourceFlavor"): "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    ("scheduling.run.ai", "PodGroup"): "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups",
    ("batch", "Job"): "/apis/batch/v1/namespaces/ml/jobs",
}


@pytest.fixture(params=[described, upstream_crd])
def served(request: pytest.FixtureRequest, api: ApiUnderTest) -> ApiUnderTest:
    """The server with the CRDs of KAI and Kueue, in our words and in theirs, and a namespace."""
    for name in CRDS:
        api.install_crd(request.param(name))
    create_namespace(api, "ml")
    return api


def path(document: Object) -> str:
    return PATHS[document["apiVersion"].rpartition("/")[0], document["kind"]]


def errors(document: Object, before: Object | None = None) -> list[str]:
    found = [finding for reading in readings(document, ClusterFacts(), before) for finding in reading.findings]
    return [finding.message for finding in found if finding.severity == "error"]


def topology(version: str, *levels: Any) -> Object:
    entries = [{"nodeLabel": level} if isinstance(level, str) else level for level in levels]
    return {"apiVersion": version, "kind": "Topology", "metadata": {"name": "checked"}, "spec": {"levels": entries}}


def flavor(**spec: Any) -> Object:
    version = "kueue.x-k8s.io/v1beta2"
    return {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "checked"}, "spec": spec}


def pod_group(**spec: Any) -> Object:
    return workload("scheduling.run.ai/v2alpha2", "PodGroup", spec)


KAI, KUEUE = "kai.scheduler/v1alpha1", "kueue.x-k8s.io/v1beta2"
CONSTRAINT = {"topology": "cluster", "requiredTopologyLevel": ZONE.key, "preferredTopologyLevel": RACK.key}
ANNOTATED = job(
    2,
    {
        "kai.scheduler/batch-min-member": "2",
        "kai.scheduler/topology": "cluster",
        "kai.scheduler/topology-required-placement": RACK.key,
    },
    {"kueue.x-k8s.io/podset-required-topology": RACK.key},
)
ANNOTATED["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
ANNOTATED["spec"]["template"]["spec"]["restartPolicy"] = "Never"


VALID = (
    topology(KAI, {"nodeLabel": ZONE.key, "alias": "z"}, RACK.key, HOST.key),
    topology(KUEUE, ZONE.key, RACK.key, HOST.key),
    flavor(nodeLabels={"gpu": "h100"}, topologyName="cluster"),
    pod_group(minMember=8, topologyConstraint=CONSTRAINT),
    pod_group(
        minSubGroup=1,
        subGroups=[
            {"name": "a", "minSubGroup": 1},
            {"name": "b", "minMember": 2, "parent": "a", "topologyConstraint": CONSTRAINT},
        ],
    ),
)


def test_what_we_call_valid_is_accepted(served: ApiUnderTest) -> None:
    for document in VALID:
        check_accepted(served, document)


@pytest.mark.real_api("the embedded server has no Jobs")
def test_annotations_that_we_call_valid_are_accepted(api: ApiUnderTest) -> None:
    create_namespace(api, "ml")
    check_accepted(api, ANNOTATED)
    wrong = job(2, {"kai.scheduler/topology": 7})
    assert api.request("POST", path(wrong), wrong)[0] == 400
    assert errors(wrong) == ["is 7, expected a string"]


def check_accepted(api: ApiUnderTest, document: Object) -> None:
    assert [finding.message for reading in readings(document, KNOWN) for finding in reading.findings] == []
    code, answer = api.request("POST", path(document) + "?fieldValidation=Strict&dryRun=All", document)
    assert code == 201, answer


# CEL and the schema: the server's message names the field and then says these words.
REFUSED = (
    (topology(KAI, RACK.key, RACK.key), "nodeLabel must be unique"),
    (topology(KUEUE, RACK.key, RACK.key), "must be unique"),
    (
        topology(KAI, HOST.key, RACK.key),
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
    ),
    (
        topology(KUEUE, HOST.key, RACK.key),
        "the kubernetes.io/hostname label can only be used at the lowest level of topology",
    ),
    (topology(KAI), "should have at least 1 items"),
    (topology(KUEUE, *(f"example.com/l{n}" for n in range(17))), "must have at most 16 items"),
    (flavor(topologyName="cluster", nodeLabels={}), "at least one nodeLabel is required when topology is set"),
)
REFUSED_SOMEHOW = (
    topology(KAI, "Example.com/rack"),
    topology(KUEUE, "rack-"),
    topology(KAI, ""),
    topology(KUEUE, "x" * 317),
    pod_group(minMember=0),
    pod_group(subGroups=[{"name": "A", "minMember": 1}]),
    pod_group(subGroups=[{"minMember": 1}]),
    pod_group(subGroups=[{"name": "a", "minMember": -1}]),
)
CHANGES = (
    (topology(KAI, RACK.key), topology(KAI, ZONE.key), "nodeLabel structure is immutable; only aliases may be edited"),
    (topology(KUEUE, RACK.key), topology(KUEUE, ZONE.key), "field is immutable"),
    (
        flavor(nodeLabels={"gpu": "h100"}, topologyName="cluster"),
        flavor(nodeLabels={"gpu": "b200"}, topologyName="other"),
        "nodeLabels are immutable when topologyName is set",
    ),
    (
        flavor(nodeLabels={"gpu": "h100"}, topologyName="cluster"),
        flavor(nodeLabels={"gpu": "h100"}, topologyName="other"),
        "topologyName is immutable when topologyName is set",
    ),
)


@pytest.mark.real_api("the rules are CEL")
def test_what_the_server_refuses_we_refuse_in_its_words(served: ApiUnderTest) -> None:
    for document, words in REFUSED:
        code, answer = served.request("POST", path(document) + "?dryRun=All", document)
        assert code == 422, answer
        assert words in answer["message"]
        assert words in errors(document)
    for document in REFUSED_SOMEHOW:
        code, answer = served.request("POST", path(document) + "?dryRun=All", document)
        assert code == 422, answer
        assert errors(document)


@pytest.mark.real_api("the rules are CEL")
def test_changes_are_refused_in_the_same_words(served: ApiUnderTest) -> None:
    for before, after, words in CHANGES:
        version = served.create(path(before), before)["metadata"]["resourceVersion"]
        changed = {**after, "metadata": {**after["metadata"], "resourceVersion": version}}
        code, answer = served.request("PUT", f"{path(after)}/checked", changed)
        assert code == 422, answer
        assert words in answer["message"]
        assert words in errors(after, before)
        assert served.request("DELETE", f"{path(before)}/checked")[0] == 200
