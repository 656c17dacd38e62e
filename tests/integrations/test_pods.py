"""Pod templates: what counts as requested, and that nonsense is named and not fatal."""

from typing import Any

import pytest

from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.node_affinity import OPERATORS, Expression, Toleration
from toposcope.integrations.framework.pods import pods_of

REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def container(requests: Any = None, limits: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **more}


def requested(spec: Any) -> tuple[dict[str, int], list[str]]:
    part = Field(spec, "spec")
    return dict(pods_of("p", 1, part).requests), [f"{f.field}: {f.message}" for f in part.findings]


def test_limits_count_where_nothing_is_requested() -> None:
    spec = {"containers": [container({"cpu": "500m"}, {"cpu": 2, "nvidia.com/gpu": "8"})]}
    assert requested(spec) == ({"cpu": 500, "nvidia.com/gpu": 8}, [])


def test_init_containers_run_before_and_sidecars_beside() -> None:
    spec = {
        "containers": [container({"cpu": "1", "memory": "1Gi"})],
        "initContainers": [
            container({"cpu": "200m"}, restartPolicy="Always"),
            container({"cpu": "3"}),
        ],
        "overhead": {"cpu": "100m"},
    }
    assert requested(spec)[0] == {"cpu": 3300, "memory": 1 << 30}


def test_pod_level_resources_replace_the_sum() -> None:
    spec = {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}
    assert requested(spec)[0] == {"cpu": 4000}


@pytest.mark.parametrize(
    ("spec", "finding"),
    [
        ({"containers": "none"}, "spec.containers: is 'none', expected a list"),
        (
            {"containers": [container({"cpu": "lots"})]},
            (
                "spec.containers[0].resources.requests.cpu: 'lots' is not a quantity; "
                "write a number such as 8, 500m or 2Gi"
            ),
        ),
        ({"containers": [container({"cpu": "-1"})]}, "spec.containers[0].resources.requests.cpu: '-1' is below zero"),
        (
            {"containers": [container({"cpu": [1]})]},
            "spec.containers[0].resources.requests.cpu: is [1], expected a quantity such as 8, 500m or 2Gi",
        ),
        ({"containers": [7]}, "spec.containers[0]: is 7, expected an object"),
        ("nothing", "spec: is 'nothing', expected an object"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]
                        }
                    }
                }
            },
            f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: 'Like' is none of {', '.join(OPERATORS)}",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_path(spec: Any, finding: str) -> None:
    assert finding in requested(spec)[1]


def test_devices_from_claims_are_said_to_be_left_out() -> None:
    assert (
        "devices that come from resource claims are not counted" in requested({"resourceClaims": [{"name": "g"}]})[1][0]
    )


def test_the_choice_of_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    spec = {
        "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
    }
    choice = pods_of("p", 1, Field(spec)).node_filter
    assert choice.selector == (("pool", "gpu"),)
    assert choice.terms == ((Expression("zone", "In", ("a",)),),)
    assert choice.tolerations == (Toleration(operator="Exists"),)
