"""What Grove refuses of cliques, scaling groups and their names, counts and order."""

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.grove.podcliqueset import GROUP, LEADER, PLACED_ALONE, ROUTER, STARTUP, WHOLE, WORKER
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document

pytestmark = pytest.mark.regression

GROVES_SCHEDULER_DECIDES = "remove it: Grove's scheduler decides where its pods run"


def read_grove(edits: Edits | None = None) -> Read:
    return read("Grove", document("grove/podcliqueset", edits), CLUSTER)


def test_set_without_cliques_is_refused() -> None:
    answer = read_grove({"spec.template.cliques": []})
    assert answer.findings == [
        error("grove/cliques", "spec.template.cliques", "at least one PodClique must be defined", fix="add one"),
        error(
            "grove/clique-found",
            f"{GROUP}.cliqueNames[0]",
            "unidentified PodClique names found",
            fix="define it in cliques",
        ),
        error(
            "grove/clique-found",
            f"{GROUP}.cliqueNames[1]",
            "unidentified PodClique names found",
            fix="define it in cliques",
        ),
    ]


@pytest.mark.parametrize(
    ("name", "message", "fix"),
    [
        pytest.param("", "field cannot be empty", "name it", id="empty"),
        pytest.param(
            "Router",
            "invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain",
            "use lower-case letters, digits and '-'",
            id="capitals",
        ),
    ],
)
def test_wrong_name_of_a_clique_is_refused(name: str, message: str, fix: str) -> None:
    answer = read_grove({f"{ROUTER}.name": name})
    assert answer.findings == [error("grove/name", f"{ROUTER}.name", message, fix=fix)]


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        pytest.param({f"{ROUTER}.name": "leader"}, f"{LEADER}.name", id="names"),
        pytest.param({f"{ROUTER}.spec.roleName": "leader"}, f"{LEADER}.spec.roleName", id="roles"),
    ],
)
def test_names_and_roles_that_are_not_unique_are_refused(edits: Edits, field: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [
        error("grove/unique", field, 'Duplicate value: ["leader"]', fix="use each once in spec.template.cliques")
    ]


def test_clique_without_role_is_refused() -> None:
    answer = read_grove({f"{ROUTER}.spec.roleName": None})
    assert answer.findings == [error("grove/required", f"{ROUTER}.spec.roleName", "Required value", fix="set it")]


@pytest.mark.parametrize(
    ("edits", "field", "message", "fix"),
    [
        pytest.param(
            {f"{ROUTER}.spec.replicas": 0},
            f"{ROUTER}.spec.minAvailable",
            "must be greater than 0: without it, Grove uses replicas as written (0)",
            "set replicas: 1, or minAvailable: 1",
            id="no-replicas",
        ),
        pytest.param(
            {f"{ROUTER}.spec.minAvailable": 2},
            f"{ROUTER}.spec.minAvailable",
            "minAvailable must not be greater than replicas",
            "write 1 or less",
            id="minimum-above-replicas",
        ),
        pytest.param(
            {f"{ROUTER}.spec.minAvailable": 0},
            f"{ROUTER}.spec.minAvailable",
            "must be greater than 0",
            "write 1 or more",
            id="no-minimum",
        ),
    ],
)
def test_wrong_count_of_a_clique_is_refused(edits: Edits, field: str, message: str, fix: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [error("grove/replicas", field, message, fix=fix)]


@pytest.mark.parametrize(
    ("edits", "field", "message", "fix"),
    [
        pytest.param(
            {f"{ROUTER}.spec.autoScalingConfig": {"minReplicas": 0, "maxReplicas": 4}},
            f"{ROUTER}.spec.autoScalingConfig.minReplicas",
            "must be greater than or equal to podCliqueSpec.minAvailable",
            "raise it, or lower minAvailable",
            id="below-minimum",
        ),
        pytest.param(
            {f"{ROUTER}.spec.autoScalingConfig": {"minReplicas": 3, "maxReplicas": 2}},
            f"{ROUTER}.spec.autoScalingConfig.maxReplicas",
            "must be greater than or equal to podCliqueSpec.minReplicas",
            "write 3 or more",
            id="upside-down",
        ),
        pytest.param(
            {f"{LEADER}.spec.autoScalingConfig": {"maxReplicas": 2}},
            f"{LEADER}.spec.autoScalingConfig",
            "AutoScalingConfig is not allowed to be defined for PodClique that is part of scaling group",
            "scale the group: scaleConfig",
            id="inside-a-group",
        ),
    ],
)
def test_wrong_scaling_of_a_clique_is_refused(edits: Edits, field: str, message: str, fix: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [error("grove/scaling", field, message, fix=fix)]


@pytest.mark.parametrize(
    ("edits", "field"),
    [
        pytest.param(
            {f"{ROUTER}.spec.podSpec.topologySpreadConstraints": []},
            f"{ROUTER}.spec.podSpec.topologySpreadConstraints",
            id="spread-constraints",
        ),
        pytest.param({f"{ROUTER}.spec.podSpec.nodeName": "n1"}, f"{ROUTER}.spec.podSpec.nodeName", id="node-name"),
    ],
)
def test_field_that_grove_sets_itself_is_refused(edits: Edits, field: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [error("grove/pod-spec", field, "must not be set", fix=GROVES_SCHEDULER_DECIDES)]


def test_wrong_name_of_a_group_is_refused() -> None:
    answer = read_grove({f"{GROUP}.name": "De_code"})
    assert answer.findings == [
        error(
            "grove/name",
            f"{GROUP}.name",
            "invalid PodCliqueScalingGroupConfig name, must be a valid DNS subdomain",
            fix="use lower-case letters, digits and '-'",
        )
    ]


def test_clique_twice_in_a_group_is_refused() -> None:
    answer = read_grove({f"{GROUP}.cliqueNames[1]": "leader"})
    assert answer.findings == [
        error(
            "grove/unique",
            f"{GROUP}.cliqueNames[1]",
            'Duplicate value: ["leader"]',
            fix="use each once in spec.template.podCliqueScalingGroups",
        )
    ]


def test_unknown_clique_of_a_group_is_refused() -> None:
    answer = read_grove({f"{GROUP}.cliqueNames": ["leadr"]})
    assert answer.findings == [
        error(
            "grove/clique-found",
            f"{GROUP}.cliqueNames[0]",
            "unidentified PodClique names found",
            fix="did you mean 'leader'?",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "field", "message", "fix"),
    [
        pytest.param(
            {f"{GROUP}.replicas": 0}, f"{GROUP}.replicas", "must be greater than 0", "write 1 or more", id="no-replicas"
        ),
        pytest.param(
            {f"{GROUP}.minAvailable": 3},
            f"{GROUP}.minAvailable",
            "minAvailable must not be greater than replicas",
            "write 2 or less",
            id="minimum-above-replicas",
        ),
    ],
)
def test_wrong_count_of_a_group_is_refused(edits: Edits, field: str, message: str, fix: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [error("grove/replicas", field, message, fix=fix)]


def test_scaling_of_a_group_below_its_minimum_is_refused() -> None:
    answer = read_grove({f"{GROUP}.scaleConfig": {"minReplicas": 0, "maxReplicas": 2}})
    assert answer.findings == [
        error(
            "grove/scaling",
            f"{GROUP}.scaleConfig.minReplicas",
            "scaleConfig.minReplicas must be greater than or equal to minAvailable",
            fix="write 1 or more",
        )
    ]


def test_group_name_too_long_for_its_pods_is_refused() -> None:
    answer = read_grove({f"{GROUP}.name": "d" * 38})
    assert answer.findings == [
        error(
            "grove/name-length",
            f"{GROUP}.cliqueNames[0]",
            (
                "combined resource name length 47 exceeds 45-character limit required for pod naming. "
                "Consider shortening: PodCliqueSet 'llm', PodCliqueScalingGroup "
                "'dddddddddddddddddddddddddddddddddddddd', or PodClique 'leader'"
            ),
            fix="shorten them by 2",
        ),
        error(
            "grove/name-length",
            f"{GROUP}.cliqueNames[1]",
            (
                "combined resource name length 47 exceeds 45-character limit required for pod naming. "
                "Consider shortening: PodCliqueSet 'llm', PodCliqueScalingGroup "
                "'dddddddddddddddddddddddddddddddddddddd', or PodClique 'worker'"
            ),
            fix="shorten them by 2",
        ),
    ]


def test_clique_name_too_long_for_its_pods_is_refused() -> None:
    answer = read_grove({f"{ROUTER}.name": "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"})
    assert answer.findings == [
        error(
            "grove/name-length",
            f"{ROUTER}.name",
            (
                "combined resource name length 46 exceeds 45-character limit required for pod naming. "
                "Consider shortening: PodCliqueSet 'llm' or PodClique "
                "'rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr'"
            ),
            fix="shorten them by 1",
        )
    ]


@pytest.mark.parametrize(
    ("edits", "field", "message", "fix"),
    [
        pytest.param(
            {"spec.template.topologyConstrain": {"topologyName": "cluster", "pack": {"required": "zone"}}},
            "spec.template.topologyConstrain",
            'unknown field "spec.template.topologyConstrain"',
            (
                "did you mean 'topologyConstraint'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, "
                "Helm drops it"
            ),
            id="set",
        ),
        pytest.param(
            {f"{ROUTER}.spec.podSpec.schedulername": "kai-scheduler"},
            f"{ROUTER}.spec.podSpec.schedulername",
            'unknown field "spec.template.cliques[0].spec.podSpec.schedulername"',
            "did you mean 'schedulerName'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, Helm drops it",
            id="pod-spec",
        ),
        pytest.param(
            {f"{ROUTER}.spec.podSpec.containers[0].resource": {}},
            f"{ROUTER}.spec.podSpec.containers[0].resource",
            'unknown field "spec.template.cliques[0].spec.podSpec.containers[0].resource"',
            "did you mean 'resources'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, Helm drops it",
            id="container",
        ),
        pytest.param(
            {f"{ROUTER}.topologyConstraints": {"topologyName": "cluster", "pack": {"required": "zone"}}},
            f"{ROUTER}.topologyConstraints",
            'unknown field "spec.template.cliques[0].topologyConstraints"',
            (
                "did you mean 'topologyConstraint'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, "
                "Helm drops it"
            ),
            id="clique",
        ),
    ],
)
def test_misspelt_field_is_refused(edits: Edits, field: str, message: str, fix: str) -> None:
    answer = read_grove(edits)
    assert answer.findings == [error("grove/field", field, message, fix=fix)]


def test_cliques_may_start_one_after_the_other() -> None:
    answer = read_grove(
        {
            f"{LEADER}.spec.startsAfter": ["router"],
            f"{WORKER}.spec.startsAfter": ["leader"],
            STARTUP: "CliqueStartupTypeExplicit",
        }
    )
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_cliques_that_wait_for_each_other_are_refused() -> None:
    answer = read_grove(
        {
            f"{LEADER}.spec.startsAfter": ["worker"],
            f"{WORKER}.spec.startsAfter": ["leader"],
            STARTUP: "CliqueStartupTypeExplicit",
        }
    )
    assert answer.findings == [
        error(
            "grove/starts-after",
            "spec.template.cliques",
            "clique must not have circular dependencies",
            fix="remove the cycle in startsAfter",
        )
    ]


def test_clique_that_waits_for_itself_is_refused() -> None:
    answer = read_grove({f"{LEADER}.spec.startsAfter": ["leader"], STARTUP: "CliqueStartupTypeExplicit"})
    assert answer.findings == [
        error(
            "grove/starts-after",
            f"{LEADER}.spec.startsAfter[0]",
            "clique dependency cannot refer to itself",
            fix="remove it",
        )
    ]


def test_clique_that_waits_for_an_unknown_one_is_refused() -> None:
    answer = read_grove({f"{LEADER}.spec.startsAfter": ["other"], STARTUP: "CliqueStartupTypeExplicit"})
    assert answer.findings == [
        error(
            "grove/starts-after",
            f"{LEADER}.spec.startsAfter[0]",
            "unknown clique names found, all clique dependencies must be defined as cliques",
            fix="there are: leader, router, worker",
        )
    ]


def test_unknown_field_is_warned_of() -> None:
    answer = read_grove({"spec.template.rollout": {}})
    assert answer.findings == [
        warning(
            "grove/field",
            "spec.template.rollout",
            'unknown field "spec.template.rollout"',
            fix="Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, Helm drops it",
        )
    ]


def test_set_without_replicas_is_warned_of() -> None:
    answer = read_grove({"spec.replicas": None})
    assert answer.findings == [
        warning(
            "grove/no-replicas",
            "spec.replicas",
            "defaults to 0, so Grove creates no pods",
            fix="set it to 1 or more",
        )
    ]


SET_NAME = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
DURATION = "set a duration such as 4h or 90s, or remove it: the default is 4h"


def test_name_of_a_set_in_capitals_is_refused() -> None:
    answer = read_grove({"metadata.name": "Llm"})
    assert answer.findings == [
        error("grove/name", "metadata.name", SET_NAME, fix="use lower-case letters, digits and '-'")
    ]


def test_unknown_startup_type_is_refused() -> None:
    answer = read_grove({STARTUP: "CliqueStartupTypeInorder"})
    assert answer.findings == [
        error(
            "grove/enum",
            STARTUP,
            'Unsupported value: "CliqueStartupTypeInorder": supported values: '
            '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"',
            fix="did you mean 'CliqueStartupTypeInOrder'?",
        )
    ]


def test_unknown_update_strategy_is_refused() -> None:
    answer = read_grove({"spec.updateStrategy": {"type": "Rolling"}})
    assert [finding.rule for finding in answer.findings] == ["grove/enum"]
    assert answer.findings[0].field == "spec.updateStrategy.type"


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        pytest.param("-1s", "terminationDelay must be greater than 0", id="negative"),
        pytest.param("0", "terminationDelay must be greater than 0", id="none"),
        pytest.param("x", 'time: invalid duration "x"', id="no-duration"),
        pytest.param("5", 'time: invalid duration "5"', id="no-unit"),
    ],
)
def test_wrong_termination_delay_is_refused(delay: str, message: str) -> None:
    answer = read_grove({"spec.template.terminationDelay": delay})
    assert answer.findings == [
        error("grove/termination-delay", "spec.template.terminationDelay", message, fix=DURATION)
    ]


@pytest.mark.parametrize("delay", ["4h", "1m30s", "1.5h", "500ms"])
def test_duration_as_a_termination_delay_is_accepted(delay: str) -> None:
    assert read_grove({"spec.template.terminationDelay": delay}).findings == []


def test_variable_that_is_set_twice_is_refused() -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "1=2"}]
    answer = read_grove({f"{ROUTER}.spec.podSpec.containers[0].env": variables})
    env = f"{ROUTER}.spec.podSpec.containers[0].env"
    assert answer.findings == [
        error(
            "grove/env",
            f"{env}[2].name",
            '"1=2" is not a valid name of an environment variable',
            fix="use letters, digits, '_', '-' or '.'",
        ),
        error("grove/unique", f"{env}[1].name", 'Duplicate value: ["A"]', fix=f"use each once in {env}"),
    ]


def test_part_of_a_gpu_of_a_clique_counts_with_kai() -> None:
    edits: Edits = {
        f"{ROUTER}.annotations": {"gpu-fraction": "0.5"},
        f"{ROUTER}.spec.podSpec.containers[0].resources": None,
    }
    answer = read_grove(edits)
    assert answer.findings == []
    assert "clique router: 1 router (x 0.5 gpu=1)" in answer.workload
