"""Grove's topology constraints: levels of a set, its groups and cliques, and what KAI places at once."""

import pytest
from tests.integrations.clusters import CLUSTER
from tests.integrations.grove.podcliqueset import (
    GROUP,
    GROUP_CONSTRAINT,
    GROUP_WITHOUT_LEVEL,
    LEADER,
    PLACED_ALONE,
    REQUIRED,
    ROUTER,
    ROUTER_CONSTRAINT,
    SET_CONSTRAINT,
    TOPOLOGY_NAME,
    WHOLE,
    WORKER,
)
from tests.support.checking import Read, error, read, warning
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression

PACK = "spec.template.topologyConstraint.pack"
PREFERRED = "spec.template.topologyConstraint.pack.preferred"
PACK_DOMAIN = "spec.template.topologyConstraint.packDomain"
LEADER_CONSTRAINT = f"{LEADER}.topologyConstraint"
ONE_TOPOLOGY = (
    "all topologyConstraint.topologyName values within a PodCliqueSet must match in the current implementation"
)


def read_grove(edits: Edits | None = None) -> Read:
    return read("Grove", document("grove/podcliqueset", edits), CLUSTER)


def test_scaling_group_prefers_a_host_in_its_rack() -> None:
    answer = read_grove({f"{GROUP}.topologyConstraint.pack.preferred": "host"})
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            2 x scaling group decode: required rack, preferred host
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     scaling group decode: required rack, preferred host
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required rack, preferred host
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [PLACED_ALONE]


def test_first_replica_of_a_group_is_placed_with_the_set() -> None:
    answer = read_grove()
    assert answer.findings == []
    assert answer.workload == WHOLE
    assert answer.notes == [PLACED_ALONE]


def test_other_replicas_of_a_group_keep_the_level_of_the_set() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None})
    assert answer.findings == []
    assert answer.workload == GROUP_WITHOUT_LEVEL
    assert answer.notes == [PLACED_ALONE]


def test_replicas_within_min_available_are_placed_with_the_set() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, f"{GROUP}.minAvailable": 2})
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     2 x scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_only_min_available_pods_of_a_clique_are_placed_at_once() -> None:
    answer = read_grove({f"{WORKER}.spec.minAvailable": 2, GROUP_CONSTRAINT: None, f"{GROUP}.minAvailable": 2})
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required zone
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required zone
                     2 x scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 2 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        "room is checked for 14 of 18 pods: KAI starts these together, and the others if there is room"
    ]


def test_set_without_constraints_has_no_topology() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, SET_CONSTRAINT: None})
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml, a gang
          2 x llm
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm
                     scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_constraint_without_pack_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, PACK: None})
    assert answer.findings == [
        error(
            "grove/pack", PACK, "topologyConstraint must specify pack or deprecated packDomain", fix="set pack.required"
        )
    ]


def test_pack_without_level_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, REQUIRED: None})
    assert answer.findings == [
        error(
            "grove/pack",
            PACK,
            "pack must specify at least one of required or preferred",
            fix="name a level, or remove it",
        )
    ]


def test_pack_domain_beside_pack_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, REQUIRED: "rack", PACK_DOMAIN: "rack"})
    assert answer.findings == [
        error(
            "grove/pack", REQUIRED, "must not set both pack.required and deprecated packDomain", fix="remove packDomain"
        ),
        error(
            "grove/pack-domain",
            PACK_DOMAIN,
            "packDomain is deprecated and cannot be used on new workloads; use pack.required",
            fix="set pack: {required: rack} (only Grove before 0.1.0-alpha.10 needs packDomain)",
        ),
    ]


def test_pack_domain_of_a_new_set_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"topologyName": "cluster", "packDomain": "rack"}})
    assert answer.findings == [
        error(
            "grove/pack-domain",
            PACK_DOMAIN,
            "packDomain is deprecated and cannot be used on new workloads; use pack.required",
            fix="set pack: {required: rack} (only Grove before 0.1.0-alpha.10 needs packDomain)",
        )
    ]


def test_unknown_topology_is_refused() -> None:
    answer = read_grove(
        {GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"topologyName": "clutser", "pack": {"required": "rack"}}}
    )
    assert answer.findings == [
        error(
            "grove/topology-exists",
            TOPOLOGY_NAME,
            'ClusterTopologyBinding "clutser" not found',
            fix="did you mean 'cluster'?",
        )
    ]


def test_constraint_without_topology_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, SET_CONSTRAINT: {"pack": {"required": "rack"}}})
    assert answer.findings == [
        error(
            "grove/topology-name",
            TOPOLOGY_NAME,
            "topologyName is required when topologyConstraint is set and cannot be inherited",
            fix="set it on spec.template.topologyConstraint; there are: cluster",
        )
    ]


@pytest.mark.parametrize(
    ("domain", "rule", "message", "fix"),
    [
        pytest.param(
            "rak",
            "grove/domain-exists",
            "topology domain 'rak' does not exist in cluster topology [zone rack host]",
            "did you mean 'rack'?",
            id="unknown",
        ),
        pytest.param(
            "example.com/rack",
            "grove/domain-pattern",
            "spec.template.topologyConstraint.pack.required in body should match '^[a-z][a-z0-9-]*$'",
            "Grove requires the domain here: write 'rack'",
            id="label-key",
        ),
        pytest.param(
            "",
            "grove/domain-pattern",
            "spec.template.topologyConstraint.pack.required in body should be at least 1 chars long",
            "there are: host, rack, zone",
            id="empty",
        ),
        pytest.param(
            "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
            "grove/domain-pattern",
            "may not be more than 63 bytes",
            "there are: host, rack, zone",
            id="too-long",
        ),
    ],
)
def test_wrong_domain_is_refused(domain: str, rule: str, message: str, fix: str) -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, REQUIRED: domain})
    assert answer.findings == [error(rule, REQUIRED, message, fix=fix)]


def test_misspelt_pack_is_refused() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, REQUIRED: "rack", "spec.template.topologyConstraint.pak": {}})
    assert answer.findings == [
        error(
            "grove/field",
            "spec.template.topologyConstraint.pak",
            'unknown field "spec.template.topologyConstraint.pak"',
            fix="did you mean 'pack'? Grove v0.1.0-alpha.12 has no such field: kubectl rejects it, Helm drops it",
        )
    ]


def test_clique_broader_than_its_set_is_refused() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "zone"}},
            GROUP_CONSTRAINT: None,
            REQUIRED: "host",
        }
    )
    assert answer.findings == [
        error(
            "grove/hierarchy",
            SET_CONSTRAINT,
            (
                "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'router' topology "
                "constraint domain 'zone'"
            ),
            fix="use 'zone' or something broader here, or 'host' or something narrower on PodClique 'router'",
        )
    ]


def test_clique_broader_than_its_group_is_refused() -> None:
    answer = read_grove(
        {
            LEADER_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "rack"}},
            GROUP_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "host"}},
        }
    )
    assert answer.findings == [
        error(
            "grove/hierarchy",
            GROUP_CONSTRAINT,
            (
                "PodCliqueScalingGroup 'decode' topology constraint domain 'host' is narrower than PodClique "
                "'leader' topology constraint domain 'rack'"
            ),
            fix="use 'rack' or something broader here, or 'host' or something narrower on PodClique 'leader'",
        )
    ]


def test_preferred_level_of_a_clique_broader_than_its_set_is_refused() -> None:
    answer = read_grove(
        {ROUTER_CONSTRAINT: {"pack": {"preferred": "zone"}}, GROUP_CONSTRAINT: None, PACK: {"preferred": "host"}}
    )
    assert answer.findings == [
        error(
            "grove/hierarchy",
            PREFERRED,
            (
                "PodCliqueSet topology constraint domain 'host' is narrower than PodClique 'router' topology "
                "constraint domain 'zone'"
            ),
            fix="use 'zone' or something broader here, or 'host' or something narrower on PodClique 'router'",
        )
    ]


def test_required_group_may_be_broader_than_preferred_set() -> None:
    answer = read_grove(
        {GROUP_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "zone"}}, PACK: {"preferred": "host"}}
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: preferred host
            2 x scaling group decode: required zone
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: preferred host
                     scaling group decode: required zone
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required zone
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_unknown_level_of_another_clique_hides_a_broader_one() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "zone"}},
            LEADER_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "shelf"}},
            GROUP_CONSTRAINT: None,
            REQUIRED: "host",
        }
    )
    assert answer.findings == [
        error(
            "grove/domain-exists",
            f"{LEADER}.topologyConstraint.pack.required",
            "topology domain 'shelf' does not exist in cluster topology [zone rack host]",
            fix="there are: host, rack, zone",
        )
    ]


def test_clique_on_another_topology_is_refused() -> None:
    answer = read_grove(
        {ROUTER_CONSTRAINT: {"topologyName": "other", "pack": {"required": "rack"}}, GROUP_CONSTRAINT: None}
    )
    assert answer.findings == [
        error(
            "grove/one-topology",
            f"{ROUTER}.topologyConstraint.topologyName",
            ONE_TOPOLOGY,
            fix="use 'cluster' everywhere",
        )
    ]


def test_each_part_on_another_topology_is_refused() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"topologyName": "other", "pack": {"required": "rack"}},
            GROUP_CONSTRAINT: {"topologyName": "cluster", "pack": {"required": "zone"}},
            SET_CONSTRAINT: None,
        }
    )
    assert answer.findings == [
        error(
            "grove/one-topology",
            f"{ROUTER}.topologyConstraint.topologyName",
            ONE_TOPOLOGY,
            fix="use one name everywhere, or create two PodCliqueSets",
        ),
        error(
            "grove/one-topology",
            f"{GROUP}.topologyConstraint.topologyName",
            ONE_TOPOLOGY,
            fix="use one name everywhere, or create two PodCliqueSets",
        ),
    ]


def test_clique_inherits_the_topology_of_its_group() -> None:
    answer = read_grove(
        {
            LEADER_CONSTRAINT: {"pack": {"required": "host"}},
            f"{GROUP}.topologyConstraint.topologyName": "cluster",
            SET_CONSTRAINT: None,
        }
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm
            2 x scaling group decode: required rack
              clique leader: required host; 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm
                     scaling group decode: required rack
                       clique leader: required host; 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required rack
                     clique leader: required host; 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_clique_outside_of_groups_inherits_no_topology() -> None:
    answer = read_grove(
        {
            ROUTER_CONSTRAINT: {"pack": {"required": "host"}},
            LEADER_CONSTRAINT: {"pack": {"required": "host"}},
            f"{GROUP}.topologyConstraint.topologyName": "cluster",
            SET_CONSTRAINT: None,
        }
    )
    assert answer.findings == [
        error(
            "grove/topology-name",
            f"{ROUTER}.topologyConstraint.topologyName",
            "topologyName is required when topologyConstraint is set and cannot be inherited",
            fix="set it on spec.template.topologyConstraint; there are: cluster",
        )
    ]


def test_preferred_level_broader_than_required_is_warned_of() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, PACK: {"required": "rack", "preferred": "zone"}})
    assert answer.findings == [
        warning(
            "grove/preferred-no-effect",
            PREFERRED,
            (
                "spec.template.topologyConstraint.pack.preferred is coarser than "
                "spec.template.topologyConstraint.pack.required and is redundant"
            ),
            fix=(
                "remove it, or name a narrower level: KAI 0.17 never schedules a group whose preferred level is "
                "broader than its required one"
            ),
        )
    ]
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang, not placeable
          2 x llm: required rack
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required rack
                     scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required rack
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == ["KAI 0.17 never schedules a group whose preferred level is broader than its required one"]


def test_preferred_level_equal_to_required_is_warned_of() -> None:
    answer = read_grove({GROUP_CONSTRAINT: None, PACK: {"required": "rack", "preferred": "rack"}})
    assert answer.findings == [
        warning(
            "grove/preferred-no-effect",
            PREFERRED,
            "preferred 'rack' is not narrower than the required level, so it has no effect",
            fix="name a narrower level, or remove it",
        )
    ]
    assert answer.workload == text("""
        Grove podcliqueset/llm -n ml on cluster, a gang
          2 x llm: required rack, preferred rack
            2 x scaling group decode
              clique leader: 1 leader (nvidia.com/gpu=8)
              clique worker: 3 worker (nvidia.com/gpu=8)
            clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x llm: required rack, preferred rack
                     scaling group decode
                       clique leader: 1 leader (nvidia.com/gpu=8)
                       clique worker: 3 worker (nvidia.com/gpu=8)
                     clique router: 1 router (nvidia.com/gpu=8)
          at once: 2 x scaling group decode: required rack, preferred rack
                     clique leader: 1 leader (nvidia.com/gpu=8)
                     clique worker: 3 worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == [
        (
            "KAI places replicas of a scaling group beyond its minAvailable separately, so not always in the rack "
            "of the others"
        )
    ]
