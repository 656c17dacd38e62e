"""What Kueue refuses of the annotations of pod templates, in its own words."""

import json
from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.kueue.annotations import (
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, edited

pytestmark = pytest.mark.regression

GROUP_NAME = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]"
GROUP_NAME_OF_JOB = (
    "spec.replicatedJobs[0].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]"
)
ONE_OF_PAIR = "can only define groups of exactly 2 pod sets, got: 1 pod set(s)"
ONE_ANNOTATION = (
    "must not contain more than one topology annotation: "
    '["kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology", '
    '"kueue.x-k8s.io/podset-unconstrained-topology"]'
)


def layers(**sizes: int) -> str:
    """Slice layers as the annotation has them: pods by domain, in this order."""
    keys = {"zone": "topology.kubernetes.io/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"}
    return json.dumps([{"topology": keys[domain], "size": size} for domain, size in sizes.items()])


def grouped(name: str, *, pods: int, level: str) -> dict[str, Any]:
    """One Job of a JobSet whose pods belong to the group g."""
    job = document("kueue/jobset")["spec"]["replicatedJobs"][0]
    annotations = {"kueue.x-k8s.io/podset-group-name": "g", "kueue.x-k8s.io/podset-required-topology": level}
    edits = {
        "name": name,
        "replicas": 1,
        "template.spec.parallelism": pods,
        "template.spec.template.metadata.annotations": annotations,
    }
    return edited(job, edits)


def read_kueue(name: str, edits: Edits | None = None) -> Read:
    return read("Kueue", document(f"kueue/{name}", edits), CLUSTER)


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param({PREFERRED: "example.com/rack"}, id="preferred"),
        pytest.param({UNCONSTRAINED: "true"}, id="unconstrained"),
    ],
)
def test_second_topology_annotation_is_refused(edits: Edits) -> None:
    answer = read_kueue("job", edits)
    assert answer.findings == [
        error(
            "kueue/one-annotation",
            "spec.template.metadata.annotations",
            ONE_ANNOTATION,
            fix="keep only one of them",
        )
    ]


def test_unconstrained_that_is_no_boolean_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, UNCONSTRAINED: "yes"})
    assert answer.findings == [
        error("kueue/unconstrained", UNCONSTRAINED, "must be a boolean value", fix='set "true", or remove it')
    ]


@pytest.mark.parametrize(
    ("key", "message", "fix"),
    [
        pytest.param("", "name part must be non-empty", "name a node label, or remove it", id="empty"),
        pytest.param(
            "example.com/rack!",
            (
                "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an alphanumeric character"
            ),
            "name a node label",
            id="punctuation",
        ),
        pytest.param("r" * 64, "name part must be no more than 63 bytes", "name a node label", id="too-long"),
        pytest.param(
            "Example.com/rack",
            (
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric "
                "characters, '-' or '.', and must start and end with an alphanumeric character"
            ),
            "name a node label",
            id="prefix-in-capitals",
        ),
    ],
)
def test_malformed_label_key_is_refused(key: str, message: str, fix: str) -> None:
    answer = read_kueue("job", {REQUIRED: key})
    assert answer.findings == [error("kueue/label-name", REQUIRED, message, fix=fix)]


def test_domain_instead_of_label_key_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: "rack"})
    assert answer.findings == [
        error(
            "kueue/level-exists",
            REQUIRED,
            "no Topology has the level rack",
            fix="a label key is required here: write 'example.com/rack'",
        )
    ]


def test_unknown_level_of_slices_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LEVEL: "example.com/rak", SLICE_SIZE: "2"})
    assert answer.findings == [
        error(
            "kueue/level-exists",
            SLICE_LEVEL,
            "no Topology has the level example.com/rak of the slices",
            fix="did you mean 'example.com/rack'?",
        )
    ]


def test_slices_without_size_are_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LEVEL: "example.com/rack"})
    assert answer.findings == [
        error(
            "kueue/slice-size",
            SLICE_SIZE,
            "must be set when 'kueue.x-k8s.io/podset-slice-required-topology' is specified",
            fix="set how many pods share a domain",
        )
    ]


def test_slice_size_without_level_is_refused() -> None:
    answer = read_kueue("job", {SLICE_SIZE: "2"})
    assert answer.findings == [
        error(
            "kueue/slice-size",
            SLICE_SIZE,
            "may not be set when 'kueue.x-k8s.io/podset-slice-required-topology' is not specified",
            fix="set kueue.x-k8s.io/podset-slice-required-topology, or remove it",
        )
    ]


@pytest.mark.parametrize(
    ("size", "message"),
    [
        pytest.param("two", "must be a numeric value", id="no-number"),
        pytest.param("0", "must be greater than or equal to 1", id="zero"),
        pytest.param("9", "must not be greater than pod set count 8", id="more-than-the-pods"),
    ],
)
def test_wrong_slice_size_is_refused(size: str, message: str) -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LEVEL: "example.com/rack", SLICE_SIZE: size})
    assert answer.findings == [error("kueue/slice-size", SLICE_SIZE, message, fix="set how many pods share a domain")]


def test_slices_above_their_pod_set_are_refused() -> None:
    answer = read_kueue("job", {SLICE_LEVEL: "topology.kubernetes.io/zone", SLICE_SIZE: "2"})
    assert answer.findings == [
        error(
            "kueue/slice-level",
            SLICE_LEVEL,
            "podset slice topology topology.kubernetes.io/zone is above the podset topology example.com/rack",
            fix="name a level that is narrower than example.com/rack",
        )
    ]


def test_slice_layers_that_are_no_json_are_refused() -> None:
    answer = read_kueue("job", {REQUIRED: "topology.kubernetes.io/zone", SLICE_LAYERS: "["})
    assert answer.findings == [
        error(
            "kueue/slice-layers",
            SLICE_LAYERS,
            "must be a valid JSON array: Expecting value: line 1 column 2 (char 1)",
            fix='use [{"topology": "<label key>", "size": <pods>}, ...]',
        )
    ]


def test_empty_slice_layers_are_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LAYERS: "[]"})
    assert answer.findings == [
        error(
            "kueue/slice-layers",
            SLICE_LAYERS,
            "must contain between 1 and 3 constraints",
            fix="name the broadest level first",
        )
    ]


def test_slice_layers_beside_slices_are_refused() -> None:
    answer = read_kueue(
        "job", {REQUIRED: None, SLICE_LEVEL: "example.com/rack", SLICE_SIZE: "2", SLICE_LAYERS: layers(zone=8)}
    )
    assert answer.findings == [
        error(
            "kueue/slice-layers",
            SLICE_LAYERS,
            "may not be set when 'kueue.x-k8s.io/podset-slice-required-topology' is specified",
            fix="keep one of them",
        ),
        error(
            "kueue/slice-layers",
            SLICE_LAYERS,
            "may not be set when 'kueue.x-k8s.io/podset-slice-size' is specified",
            fix="keep one of them",
        ),
    ]


def test_numeric_group_name_is_refused() -> None:
    answer = read_kueue("job", {GROUP_NAME: "7"})
    assert answer.findings == [
        error("kueue/group-name", GROUP_NAME, "must not be a number", fix="give the group a name with a letter in it"),
    ]


def test_group_without_level_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, GROUP_NAME: "g"})
    assert answer.findings == [
        error(
            "kueue/group-name",
            GROUP_NAME,
            (
                "may not be set when neither 'kueue.x-k8s.io/podset-preferred-topology' nor "
                "'kueue.x-k8s.io/podset-required-topology' is specified"
            ),
            fix="set kueue.x-k8s.io/podset-required-topology on both pod sets of the group",
        ),
    ]


def test_group_with_slices_is_refused() -> None:
    answer = read_kueue(
        "job",
        {REQUIRED: "topology.kubernetes.io/zone", SLICE_LEVEL: "example.com/rack", SLICE_SIZE: "2", GROUP_NAME: "g"},
    )
    assert answer.findings == [
        error(
            "kueue/group-name",
            GROUP_NAME,
            "may not be set when 'kueue.x-k8s.io/podset-slice-size' is specified",
            fix="keep one of them",
        ),
        error(
            "kueue/group-name",
            GROUP_NAME,
            "may not be set when 'kueue.x-k8s.io/podset-slice-required-topology' is specified",
            fix="keep one of them",
        ),
    ]


def test_group_of_one_in_a_jobset_is_refused() -> None:
    jobs = [grouped("workers", pods=4, level="example.com/rack")]
    answer = read_kueue("jobset", {"spec.replicatedJobs": jobs})
    assert answer.findings == [
        error("kueue/group-pair", GROUP_NAME_OF_JOB, ONE_OF_PAIR, fix="use the group name 'g' on exactly two pod sets")
    ]


def test_group_of_one_in_a_job_is_no_group() -> None:
    """The Job's webhook does not ask for a second pod set."""
    answer = read_kueue("job", {REQUIRED: "topology.kubernetes.io/zone", GROUP_NAME: "g"})
    assert answer.findings == []


@pytest.mark.parametrize(
    ("annotation", "field", "message", "fix"),
    [
        pytest.param(
            layers(zone=8, rack=3),
            f"{SLICE_LAYERS}[1].size",
            "must evenly divide the parent layer size 8",
            "change one of them",
            id="no-divisor",
        ),
        pytest.param(
            layers(zone=9),
            f"{SLICE_LAYERS}[0].size",
            "must not be greater than pod set count 8",
            "change one of them",
            id="more-than-the-pods",
        ),
        pytest.param(
            layers(zone=0), f"{SLICE_LAYERS}[0].size", "must be greater than or equal to 1", "in pods", id="zero"
        ),
    ],
)
def test_wrong_size_of_a_slice_layer_is_refused(annotation: str, field: str, message: str, fix: str) -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LAYERS: annotation})
    assert answer.findings == [error("kueue/slice-layers", field, message, fix=fix)]


def test_two_slice_layers_of_one_level_are_refused() -> None:
    answer = read_kueue(
        "job",
        {
            REQUIRED: None,
            SLICE_LAYERS: '[{"topology": "example.com/rack", "size": 4}, {"topology": "example.com/rack", "size": 2}]',
        },
    )
    assert answer.findings == [
        error(
            "kueue/slice-layers",
            f"{SLICE_LAYERS}[1].topology",
            "Duplicate value: example.com/rack (also at index 0)",
            fix="name each level once",
        ),
        error(
            "kueue/slice-level",
            f"{SLICE_LAYERS}[1].topology",
            "podset slice topology example.com/rack is above the podset topology example.com/rack",
            fix="name a level that is narrower than example.com/rack",
        ),
    ]


def test_slice_layer_above_its_parent_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: None, SLICE_LAYERS: layers(rack=4, zone=2)})
    assert answer.findings == [
        error(
            "kueue/slice-level",
            f"{SLICE_LAYERS}[1].topology",
            "podset slice topology topology.kubernetes.io/zone is above the podset topology example.com/rack",
            fix="name a level that is narrower than example.com/rack",
        )
    ]


def test_misspelt_level_is_refused() -> None:
    answer = read_kueue("job", {REQUIRED: "example.com/rak"})
    assert answer.findings == [
        error(
            "kueue/level-exists",
            REQUIRED,
            "no Topology has the level example.com/rak",
            fix="did you mean 'example.com/rack'?",
        )
    ]


def test_group_of_two_kinds_that_differ_is_refused() -> None:
    answer = read_kueue(
        "jobset",
        {
            "spec.replicatedJobs": [
                grouped("a", pods=2, level="example.com/rack"),
                grouped("b", pods=3, level="topology.kubernetes.io/zone"),
            ]
        },
    )
    assert answer.findings == [
        error(
            "kueue/group-leader",
            "spec.replicatedJobs[0].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]",
            (
                "can only define groups where at least one pod set has only 1 replica, got: 2 replica(s) and "
                "3 replica(s) in the group"
            ),
            fix="one of the two must be the leader, a single pod",
        ),
        error(
            "kueue/group-leader",
            "spec.replicatedJobs[1].template.spec.template.metadata.annotations[kueue.x-k8s.io/podset-group-name]",
            (
                "can only define groups where at least one pod set has only 1 replica, got: 2 replica(s) and "
                "3 replica(s) in the group"
            ),
            fix="one of the two must be the leader, a single pod",
        ),
        error(
            "kueue/group-levels",
            "spec.replicatedJobs[0].template.spec.template.metadata.annotations",
            (
                "must specify 'kueue.x-k8s.io/podset-required-topology' or "
                "'kueue.x-k8s.io/podset-preferred-topology' topology consistent with "
                "'spec.replicatedJobs[1].template.spec.template.metadata.annotations' in group 'g'"
            ),
            fix="set the same annotation on both",
        ),
        error(
            "kueue/group-levels",
            "spec.replicatedJobs[1].template.spec.template.metadata.annotations",
            (
                "must specify 'kueue.x-k8s.io/podset-required-topology' or "
                "'kueue.x-k8s.io/podset-preferred-topology' topology consistent with "
                "'spec.replicatedJobs[0].template.spec.template.metadata.annotations' in group 'g'"
            ),
            fix="set the same annotation on both",
        ),
    ]


def test_annotations_without_queue_are_warned_of() -> None:
    answer = read_kueue("job", {"metadata.labels": {"app": "x"}})
    assert answer.findings == [
        warning(
            "kueue/queue-name",
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            "Kueue does not manage a workload without a queue, so its annotations have no effect",
            fix=(
                "label the Job with kueue.x-k8s.io/queue-name "
                "(not needed where Kueue manages jobs without a queue name)"
            ),
        )
    ]


def test_annotation_on_the_job_itself_is_warned_of() -> None:
    answer = read_kueue(
        "job",
        {
            "metadata.annotations": {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"},
            "spec.parallelism": None,
            "spec.template.metadata": None,
        },
    )
    assert answer.findings == [
        warning(
            "kueue/wrong-place",
            "metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
            "Kueue does not read this on a Job",
            fix="move it to the annotations of the pod template",
        )
    ]


def test_same_level_on_the_job_itself_is_harmless() -> None:
    copy = {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"}
    answer = read_kueue("job", {"metadata.annotations": copy})
    assert answer.findings == [
        warning(
            "kueue/duplicate",
            "metadata.annotations[kueue.x-k8s.io/podset-required-topology]",
            "Kueue reads this on the pod template, not on the Job",
            fix="remove this copy; it has no effect",
        )
    ]
