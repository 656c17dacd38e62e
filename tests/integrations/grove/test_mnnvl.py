"""NVLink groups of a PodCliqueSet: what Grove refuses of them, and the claims that it adds."""

from dataclasses import replace

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.grove.podcliqueset import GROUP, LEADER, ROUTER
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document
from toposcope.integrations.framework.constraints import pods_in
from toposcope.integrations.framework.system import SchedulerProfiles

pytestmark = pytest.mark.regression

OWN = "metadata.annotations[grove.io/mnnvl-group]"
ENABLE = "set config.network.autoMNNVLEnabled: true in Grove's chart, or remove it"
DISABLED = (
    "MNNVL is not enabled in the operator configuration. "
    "Either enable MNNVL globally or remove the grove.io/mnnvl-group annotation"
)
UNKNOWN = "Grove rejects this unless MNNVL is enabled in its operator's configuration; its chart leaves it off"
OFF = SchedulerProfiles(("default-scheduler", "kai-scheduler"), "default-scheduler")
ON = replace(OFF, has_mnnvl=True)


def read_grove(edits: Edits, profiles: SchedulerProfiles | None, *, before: Edits | None = None) -> Read:
    existing = None if before is None else document("grove/podcliqueset", before)
    return read("Grove", document("grove/podcliqueset", edits), replace(CLUSTER, profiles=profiles), before=existing)


def claims_of(answer: Read) -> dict[str, list[str]]:
    """By clique: the claims of its pods."""
    assert answer.reading is not None
    assert answer.reading.workload is not None
    claims = {}
    for pods in pods_in(answer.reading.workload.groups):
        claims[pods.name] = [claim.handle for claim in pods.claims]
    return claims


def test_group_that_is_no_label_is_refused() -> None:
    answer = read_grove({OWN: "two words"}, ON)
    assert answer.findings == [
        error(
            "grove/mnnvl",
            OWN,
            'mnnvl-group value "two words" is not a valid DNS-1123 label',
            fix="use 1-63 lower-case letters, digits and '-', or none",
        )
    ]


def test_empty_group_is_refused() -> None:
    answer = read_grove({OWN: ""}, ON)
    assert answer.findings == [error("grove/mnnvl", OWN, "mnnvl-group value must not be empty", fix="name a group")]


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(OWN, id="set"),
        pytest.param(f"{ROUTER}.annotations[grove.io/mnnvl-group]", id="clique"),
        pytest.param(f"{GROUP}.annotations[grove.io/mnnvl-group]", id="scaling-group"),
    ],
)
def test_group_is_refused_where_grove_has_mnnvl_off(place: str) -> None:
    answer = read_grove({place: "training"}, OFF)
    assert answer.findings == [error("grove/mnnvl", place, DISABLED, fix=ENABLE)]


def test_group_is_warned_of_where_nothing_is_known_of_grove() -> None:
    answer = read_grove({OWN: "training"}, None)
    assert answer.findings == [warning("grove/mnnvl", OWN, UNKNOWN, fix=ENABLE)]


@pytest.mark.parametrize("profiles", [OFF, ON, None], ids=["off", "on", "unknown"])
def test_opting_out_is_always_accepted(profiles: SchedulerProfiles | None) -> None:
    answer = read_grove({OWN: "none"}, profiles)
    assert answer.findings == []
    assert claims_of(answer) == {"leader": [], "worker": [], "router": []}


def test_pods_of_a_group_claim_the_channel_of_its_domain() -> None:
    answer = read_grove({OWN: "training", f"{LEADER}.annotations[grove.io/mnnvl-group]": "none"}, ON)
    assert answer.findings == []
    channel = "resourceclaimtemplate/llm-0-training -n ml"
    assert claims_of(answer) == {"leader": [], "worker": [channel], "router": [channel]}


def test_group_of_a_scaling_group_is_that_of_its_cliques() -> None:
    answer = read_grove({OWN: "outer", f"{GROUP}.annotations[grove.io/mnnvl-group]": "inner"}, ON)
    inner = "resourceclaimtemplate/llm-0-inner -n ml"
    assert claims_of(answer) == {
        "leader": [inner],
        "worker": [inner],
        "router": ["resourceclaimtemplate/llm-0-outer -n ml"],
    }


def test_group_is_immutable() -> None:
    answer = read_grove({OWN: "b"}, ON, before={OWN: "a"})
    assert answer.findings == [
        error(
            "grove/immutable",
            OWN,
            "field is immutable",
            fix="keep the old value, or delete the PodCliqueSet and create it again",
        )
    ]


def test_older_annotation_has_no_effect() -> None:
    older = "metadata.annotations[grove.io/auto-mnnvl]"
    answer = read_grove({older: "enabled"}, ON)
    assert answer.findings == [
        warning(
            "grove/mnnvl",
            older,
            "only Grove through v0.1.0-alpha.8 reads this, so it has no effect",
            fix="use grove.io/mnnvl-group, or remove it",
        )
    ]
    assert claims_of(answer) == {"leader": [], "worker": [], "router": []}


def test_shared_claims_are_those_of_all_cliques_below() -> None:
    answer = read_grove(
        {
            "spec.template.resourceSharing": [
                {"name": "set", "scope": "PerReplica", "filter": {"childScalingGroupNames": ["decode"]}}
            ],
            f"{GROUP}.resourceSharing": [
                {"name": "group", "scope": "PerReplica", "filter": {"childCliqueNames": ["leader"]}}
            ],
            f"{ROUTER}.resourceSharing": [{"name": "own", "scope": "AllReplicas", "namespace": "other"}],
        },
        OFF,
    )
    assert answer.findings == []
    assert claims_of(answer) == {
        "leader": ["resourceclaim/set -n ml", "resourceclaim/group -n ml"],
        "worker": ["resourceclaim/set -n ml"],
        "router": ["resourceclaim/own -n other"],
    }


def test_wrong_entries_of_shared_claims_are_refused() -> None:
    sharing = [
        {"name": "a", "scope": "Once", "namespace": "x"},
        {"name": "a", "scope": "PerReplica", "filter": {}},
        {"scope": "PerReplica", "filter": {"childCliqueNames": ["ledder"]}},
    ]
    answer = read_grove(
        {
            "spec.template.resourceClaimTemplates": [{"name": "a", "templateSpec": {"spec": {}}}],
            "spec.template.resourceSharing": sharing,
        },
        OFF,
    )
    found = [(finding.field.removeprefix("spec.template."), finding.message) for finding in answer.findings]
    assert found == [
        (
            "resourceClaimTemplates[0].templateSpec.spec.devices.requests",
            "at least one device request is required",
        ),
        (
            "resourceSharing[0].namespace",
            "namespace must be empty when name matches an internal resourceClaimTemplate",
        ),
        (
            "resourceSharing[0].scope",
            'Unsupported value: "Once": supported values: "AllReplicas", "PerReplica"',
        ),
        ("resourceSharing[1].name", 'Duplicate value: "a"'),
        (
            "resourceSharing[1].filter",
            "filter must specify at least one childCliqueNames or childScalingGroupNames entry",
        ),
        ("resourceSharing[2].name", "reference name is required"),
        ("resourceSharing[2].filter.childCliqueNames[0]", 'Not found: "ledder"'),
    ]
