"""Components of a DynamoGraphDeployment: resources, roles and names."""

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read
from tests.support.documents import Edits, document, text

pytestmark = pytest.mark.regression


def read_dynamo(name: str, edits: Edits | None = None) -> Read:
    return read("Dynamo", document(f"dynamo/{name}", edits), CLUSTER)


def test_resources_in_dynamo_s_own_form_are_read() -> None:
    answer = read_dynamo(
        "v1alpha1",
        {
            "spec.topologyConstraint": None,
            "spec.services.prefill": {
                "replicas": 4,
                "resources": {
                    "requests": {"cpu": "4", "custom": {"rdma/ib": "1"}},
                    "limits": {"gpu": "2", "gpuType": "gpu.intel.com/xe"},
                },
                "extraPodSpec": {
                    "nodeSelector": {"pool": "gpu"},
                    "mainContainer": {"resources": {"requests": {"cpu": "8"}}},
                    "containers": [{"name": "sidecar", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
            "spec.services.decode.topologyConstraint": None,
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml
          llm
            component frontend: 1 frontend
            component prefill: 4 prefill (cpu=9000 gpu.intel.com/xe=2 rdma/ib=1) on nodes with pool=gpu
            2 x replica of decode: 2 decode (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_wrong_quantities_are_named_where_they_stand() -> None:
    answer = read_dynamo(
        "v1alpha1",
        {
            "spec.topologyConstraint": None,
            "spec.services.prefill.resources.limits": {"gpu": "many", "custom": {"rdma/ib": "-1"}},
            "spec.services.decode.topologyConstraint": None,
        },
    )
    assert answer.findings == [
        error(
            "pods/quantity",
            "spec.services.prefill.resources.limits.gpu",
            "'many' is not a quantity",
            fix="write a number such as 8, 500m or 2Gi",
        ),
        error(
            "pods/quantity",
            "spec.services.prefill.resources.limits.custom.rdma/ib",
            "'-1' is negative",
            fix="write 0 or more",
        ),
    ]


def test_roles_have_their_own_pods() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec": {
                "components": [
                    {
                        "name": "decode",
                        "roles": [
                            {
                                "name": "leader",
                                "podTemplate": {
                                    "spec": {
                                        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
                                    }
                                },
                            },
                            {
                                "name": "worker",
                                "replicas": 2,
                                "podTemplate": {
                                    "spec": {
                                        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]
                                    }
                                },
                            },
                        ],
                        "multinode": {"nodeCount": 3},
                    }
                ]
            }
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml
          llm
            replica of decode: 1 decode leader (nvidia.com/gpu=1); 2 decode worker (nvidia.com/gpu=8)
    """)
    assert answer.notes == []


def test_roles_without_multinode_are_refused() -> None:
    answer = read_dynamo(
        "v1beta1", {"spec": {"components": [{"name": "decode", "roles": [{"name": "leader"}, {"name": "worker"}]}]}}
    )
    assert answer.findings == [
        error(
            "dynamo/roles",
            "spec.components[0].roles",
            (
                "roles are supported only for component shapes that define a role schema; this release "
                "supports multinode and LPX components"
            ),
            fix="add multinode.nodeCount, or remove them",
        )
    ]


def test_missing_role_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {"spec": {"components": [{"name": "decode", "roles": [{"name": "leader"}], "multinode": {"nodeCount": 3}}]}},
    )
    assert answer.findings == [
        error("dynamo/roles", "spec.components[0].roles", 'must contain the "worker" role', fix="add it")
    ]


def test_role_twice_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec": {
                "components": [
                    {
                        "name": "decode",
                        "roles": [{"name": "leader"}, {"name": "worker"}, {"name": "worker"}],
                        "multinode": {"nodeCount": 3},
                    }
                ]
            }
        },
    )
    assert answer.findings == [
        error("dynamo/roles", "spec.components[0].roles[2].name", 'Duplicate value: "worker"', fix="remove one")
    ]


def test_unknown_role_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec": {
                "components": [
                    {
                        "name": "decode",
                        "roles": [{"name": "leader"}, {"name": "worker"}, {"name": "boss"}],
                        "multinode": {"nodeCount": 3},
                    }
                ]
            }
        },
    )
    assert answer.findings == [
        error(
            "dynamo/roles",
            "spec.components[0].roles[2].name",
            'Unsupported value: "boss": supported values: "leader", "worker"',
            fix="rename it",
        )
    ]


def test_wrong_replicas_of_a_role_are_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec": {
                "components": [
                    {
                        "name": "decode",
                        "roles": [{"name": "leader"}, {"name": "worker", "replicas": 3}],
                        "multinode": {"nodeCount": 3},
                    }
                ]
            }
        },
    )
    assert answer.findings == [
        error(
            "dynamo/roles",
            "spec.components[0].roles[1].replicas",
            'must equal 2 for multinode role "worker"',
            fix="set 2, or remove it",
        )
    ]


def test_pod_template_of_one_role_alone_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec": {
                "components": [
                    {
                        "name": "decode",
                        "roles": [
                            {
                                "name": "leader",
                                "podTemplate": {
                                    "spec": {
                                        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
                                    }
                                },
                            },
                            {"name": "worker"},
                        ],
                        "multinode": {"nodeCount": 3},
                    }
                ]
            }
        },
    )
    assert answer.findings == [
        error(
            "dynamo/roles",
            "spec.components[0].roles[1].podTemplate",
            "is required on every role when role-specific PodTemplates are used",
            fix="set one, or use the component's for all roles",
        )
    ]


def test_longest_name_of_a_component_is_accepted() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.name": "a-long-name",
            "spec": {"components": [{"name": "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", "multinode": {"nodeCount": 1}}]},
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/a-long-name -n ml
          a-long-name
            component wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww: 1 wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww
    """)
    assert answer.notes == []


def test_longer_name_of_a_component_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.name": "a-long-name",
            "spec": {"components": [{"name": "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww", "multinode": {"nodeCount": 1}}]},
        },
    )
    assert answer.findings == [
        error(
            "dynamo/name-length",
            "spec.components[0].name",
            (
                "combined resource name length 46 exceeds the 45-character pod-name limit (PCS name + "
                'component name); shorten DynamoGraphDeployment name "a-long-name" or component name '
                '"wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww"'
            ),
            fix="shorten it by 1",
        )
    ]


def test_longest_name_of_a_multinode_component_is_accepted() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.name": "a-long-name",
            "spec": {"components": [{"name": "wwwwwwwwwwwwwwww", "multinode": {"nodeCount": 2}}]},
        },
    )
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/a-long-name -n ml
          a-long-name
            replica of wwwwwwwwwwwwwwww: 2 wwwwwwwwwwwwwwww
    """)
    assert answer.notes == []


def test_longer_name_of_a_multinode_component_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "metadata.name": "a-long-name",
            "spec": {"components": [{"name": "wwwwwwwwwwwwwwwww", "multinode": {"nodeCount": 2}}]},
        },
    )
    assert answer.findings == [
        error(
            "dynamo/name-length",
            "spec.components[0].name",
            (
                "combined resource name length 46 exceeds the 45-character pod-name limit (PCS name + PCSG "
                'name + longest PodClique name "wwwwwwwwwwwwwwwww-ldr"); shorten DynamoGraphDeployment name '
                '"a-long-name" or component name "wwwwwwwwwwwwwwwww"'
            ),
            fix="shorten it by 1",
        )
    ]


def test_misspelt_constraint_is_refused() -> None:
    answer = read_dynamo(
        "v1beta1",
        {
            "spec.topologyConstraint.packDomain": "zone",
            "spec.components[0].topologyConstraints": {"packDomain": "rack"},
        },
    )
    assert answer.findings == [
        error(
            "dynamo/field",
            "spec.components[0].topologyConstraints",
            'unknown field "spec.components[0].topologyConstraints"',
            fix=(
                "did you mean 'topologyConstraint'? Dynamo (main, 2026-08) has no such field: kubectl rejects it, "
                "Helm drops it"
            ),
        )
    ]
