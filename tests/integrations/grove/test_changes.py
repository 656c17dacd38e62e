"""What may change of a PodCliqueSet that exists."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.grove.podcliqueset import (
    GROUP,
    GROUP_CONSTRAINT,
    GROUP_WITHOUT_LEVEL,
    LEADER_SCHEDULER,
    ONE_SCHEDULER,
    PLACED_ALONE,
    REQUIRED,
    ROUTER,
    ROUTER_CONSTRAINT,
    ROUTER_SCHEDULER,
    SET_CONSTRAINT,
    STARTUP,
    TOPOLOGY_NAME,
    WHOLE,
    WORKER,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression

RECREATE = "keep the old value, or delete the PodCliqueSet and create it again"
IMMUTABLE = "field is immutable"


def read_grove(edits: Edits | None = None, *, before: Any = None) -> Read:
    return read("Grove", document("grove/podcliqueset", edits), CLUSTER, before=before)


def read_unchanged(edits: Edits | None = None) -> Read:
    """Read what stands in the cluster already, word for word."""
    existing = document("grove/podcliqueset", edits)
    return read("Grove", existing, CLUSTER, before=existing)


def test_level_of_a_set_is_immutable() -> None:
    answer = read_grove({REQUIRED: "rack"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/immutable",
            SET_CONSTRAINT,
            (
                'PodCliqueSet topology constraint cannot be changed from required="zone" preferred="" to '
                'required="rack" preferred=""'
            ),
            fix=RECREATE,
        )
    ]


def test_topology_of_a_set_is_immutable() -> None:
    answer = read_grove({TOPOLOGY_NAME: "other"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        warning(
            "grove/topology-exists", TOPOLOGY_NAME, 'ClusterTopologyBinding "other" not found', fix="there are: cluster"
        ),
        error(
            "grove/immutable", TOPOLOGY_NAME, 'topologyName cannot be changed from "cluster" to "other"', fix=RECREATE
        ),
    ]


def test_level_of_a_clique_cannot_be_added() -> None:
    answer = read_grove({ROUTER_CONSTRAINT: {"pack": {"required": "host"}}}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/immutable",
            ROUTER_CONSTRAINT,
            "PodClique 'router' topology constraint cannot be added after creation",
            fix=RECREATE,
        )
    ]


def test_level_of_a_group_cannot_be_removed() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/immutable",
            GROUP_CONSTRAINT,
            "PodCliqueScalingGroup 'decode' topology constraint cannot be removed after creation",
            fix=RECREATE,
        )
    ]


def test_topology_of_a_group_cannot_be_added() -> None:
    answer = read_grove({f"{GROUP}.topologyConstraint.topologyName": "cluster"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/immutable",
            GROUP_CONSTRAINT,
            "PodCliqueScalingGroup 'decode' topology constraint topologyName cannot be changed from '' to 'cluster'",
            fix=RECREATE,
        )
    ]


def test_unchanged_set_is_accepted() -> None:
    answer = read_grove(before=document("grove/podcliqueset"))
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_replicas_of_a_clique_may_change() -> None:
    answer = read_grove({f"{ROUTER}.spec.replicas": 5}, before=document("grove/podcliqueset"))
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            2 x scaling group decode: required rack
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 5 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     scaling group decode: required rack
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 5 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required rack
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [PLACED_ALONE]


def test_replicas_of_a_group_may_change() -> None:
    answer = read_grove({f"{GROUP}.replicas": 5}, before=document("grove/podcliqueset"))
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            5 x scaling group decode: required rack
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     scaling group decode: required rack
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 8 x scaling group decode: required rack
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [PLACED_ALONE]


def test_role_is_immutable() -> None:
    answer = read_grove({f"{ROUTER}.spec.roleName": "other"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error("grove/immutable", f"{ROUTER}.spec.roleName", IMMUTABLE, fix="it is 'router' in the cluster")
    ]


def test_scheduler_is_immutable() -> None:
    answer = read_grove({ROUTER_SCHEDULER: "default-scheduler"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error("grove/immutable", ROUTER_SCHEDULER, IMMUTABLE, fix="it is 'kai-scheduler' in the cluster"),
        error(
            "grove/one-scheduler",
            LEADER_SCHEDULER,
            ONE_SCHEDULER,
            fix="set schedulerName: kai-scheduler in the podSpec of every clique",
        ),
    ]


def test_cliques_of_a_group_are_immutable() -> None:
    answer = read_grove({f"{GROUP}.cliqueNames": ["worker", "leader"]}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error("grove/immutable", f"{GROUP}.cliqueNames", IMMUTABLE, fix="it is ['leader', 'worker'] in the cluster")
    ]


def test_startup_type_is_immutable() -> None:
    answer = read_grove({STARTUP: "CliqueStartupTypeInOrder"}, before=document("grove/podcliqueset"))
    assert answer.findings == [error("grove/immutable", STARTUP, IMMUTABLE, fix="it is unset in the cluster")]


def test_name_of_a_clique_is_immutable() -> None:
    answer = read_grove({f"{ROUTER}.name": "gateway"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/composition",
            f"{ROUTER}.name",
            "not allowed to change clique composition, new clique name 'gateway' is not allowed",
            fix=RECREATE,
        )
    ]


def test_name_of_a_group_is_immutable() -> None:
    answer = read_grove({f"{GROUP}.name": "prefill"}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/composition",
            f"{GROUP}.name",
            "not allowed to change scaling group composition, new scaling group name 'prefill' is not allowed",
            fix=RECREATE,
        )
    ]


def test_groups_cannot_be_removed() -> None:
    answer = read_grove({"spec.template.podCliqueScalingGroups": []}, before=document("grove/podcliqueset"))
    assert answer.findings == [
        error(
            "grove/composition",
            "spec.template.podCliqueScalingGroups",
            "not allowed to add or remove PodCliqueScalingGroupConfigs",
            fix=RECREATE,
        )
    ]


def test_pack_domain_may_become_pack() -> None:
    answer = read_grove(
        {GROUP_CONSTRAINT: None},
        before=document(
            "grove/podcliqueset",
            {GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"topologyName": "cluster", "packDomain": "zone"}},
        ),
    )
    assert answer.findings == []
    assert answer.workload == GROUP_WITHOUT_LEVEL
    assert answer.notes == [PLACED_ALONE]


def test_pack_domain_cannot_become_another_level() -> None:
    answer = read_grove(
        {GROUP_CONSTRAINT: None, REQUIRED: "rack"},
        before=document(
            "grove/podcliqueset",
            {GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"topologyName": "cluster", "packDomain": "zone"}},
        ),
    )
    assert answer.findings == [
        error(
            "grove/immutable",
            SET_CONSTRAINT,
            (
                "PodCliqueSet deprecated packDomain migration can only move packDomain to pack.required "
                'without changing the required or preferred topology domain (old required="zone" '
                'preferred="", new required="rack" preferred="")'
            ),
            fix=RECREATE,
        )
    ]


def test_topology_may_be_added_beside_pack_domain() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"packDomain": "rack"},
            GROUP_CONSTRAINT: None,
            SET_CONSTRAINT: {"packDomain": "zone", "topologyName": "cluster"},
        },
        before=document(
            "grove/podcliqueset",
            {ROUTER_CONSTRAINT: {"packDomain": "rack"}, GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"packDomain": "zone"}},
        ),
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: required rack; 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: required rack; 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required zone
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [PLACED_ALONE]


def test_unknown_topology_cannot_be_added_beside_pack_domain() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"packDomain": "rack"},
            GROUP_CONSTRAINT: None,
            SET_CONSTRAINT: {"packDomain": "zone", "topologyName": "none"},
        },
        before=document(
            "grove/podcliqueset",
            {ROUTER_CONSTRAINT: {"packDomain": "rack"}, GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"packDomain": "zone"}},
        ),
    )
    assert answer.findings == [
        error(
            "grove/topology-exists", TOPOLOGY_NAME, 'ClusterTopologyBinding "none" not found', fix="there are: cluster"
        )
    ]


def test_cliques_may_change_places() -> None:
    answer = read_grove(
        {
            f"{ROUTER}.name": "worker",
            f"{ROUTER}.spec.roleName": "worker",
            f"{ROUTER}.spec.replicas": 3,
            f"{WORKER}.name": "router",
            f"{WORKER}.spec.roleName": "router",
            f"{WORKER}.spec.replicas": 1,
        },
        before=document("grove/podcliqueset"),
    )
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_cliques_that_start_in_order_cannot_change_places() -> None:
    answer = read_grove(
        {
            f"{ROUTER}.name": "worker",
            f"{ROUTER}.spec.roleName": "worker",
            f"{ROUTER}.spec.replicas": 3,
            f"{WORKER}.name": "router",
            f"{WORKER}.spec.roleName": "router",
            f"{WORKER}.spec.replicas": 1,
            STARTUP: "CliqueStartupTypeInOrder",
        },
        before=document("grove/podcliqueset", {STARTUP: "CliqueStartupTypeInOrder"}),
    )
    assert answer.findings == [
        error(
            "grove/composition",
            "spec.template.cliques[0]",
            (
                "clique order cannot be changed when StartupType is InOrder or Explicit. Expected 'worker' "
                "at position 0, got 'worker'"
            ),
            fix="move it back to position 2",
        ),
        error(
            "grove/composition",
            "spec.template.cliques[2]",
            (
                "clique order cannot be changed when StartupType is InOrder or Explicit. Expected 'router' "
                "at position 2, got 'router'"
            ),
            fix="move it back to position 0",
        ),
    ]


def test_set_on_a_level_that_went_may_change() -> None:
    answer = read_grove(
        {f"{ROUTER}.spec.replicas": 5, GROUP_CONSTRAINT: None, REQUIRED: "shelf"},
        before=document("grove/podcliqueset", {GROUP_CONSTRAINT: None, REQUIRED: "shelf"}),
    )
    assert answer.findings == [
        warning(
            "grove/domain-exists",
            REQUIRED,
            "topology domain 'shelf' does not exist in cluster topology [zone rack host]",
            fix="there are: host, rack, zone",
        )
    ]


def test_unchanged_set_on_a_level_that_went_is_refused() -> None:
    answer = read_unchanged({GROUP_CONSTRAINT: None, REQUIRED: "shelf"})
    assert answer.findings == [
        error(
            "grove/domain-exists",
            REQUIRED,
            "topology domain 'shelf' does not exist in cluster topology [zone rack host]",
            fix="there are: host, rack, zone",
        )
    ]
