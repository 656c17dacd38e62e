"""Components that scale together as one group."""

from typing import Any

import pytest
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Read, error, read
from tests.support.documents import document, text

pytestmark = pytest.mark.regression

GROUPS = "spec.experimental.componentGroups"


def read_groups(*groups: dict[str, Any]) -> Read:
    return read("Dynamo", document("dynamo/v1beta1", {GROUPS: list(groups)}), CLUSTER)


def group(name: str, replicas: int, *components: str) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "components": [{"name": component} for component in components]}


def test_group_has_all_pods_of_its_components_in_each_replica() -> None:
    answer = read_groups(group("pair", 3, "prefill", "decode"))
    assert answer.findings == []
    assert answer.workload == text("""
        Dynamo dynamographdeployment/llm -n ml on cluster, a gang
          llm: required rack
            component frontend: 1 frontend
            3 x component group pair
              component prefill: 4 prefill (nvidia.com/gpu=8)
              2 x replica of decode: 2 decode (nvidia.com/gpu=8)
          at once: llm: required rack
                     component frontend: 1 frontend
                     component group pair
                       component prefill: 4 prefill (nvidia.com/gpu=8)
                       2 x replica of decode: 2 decode (nvidia.com/gpu=8)
          at once: 2 x component group pair: required rack
                     component prefill: 4 prefill (nvidia.com/gpu=8)
                     2 x replica of decode: 2 decode (nvidia.com/gpu=8)
    """)


def test_component_that_does_not_exist_is_refused() -> None:
    answer = read_groups(group("pair", 2, "prefil"))
    assert answer.findings == [
        error(
            "dynamo/component-group",
            f"{GROUPS}[0].components[0].name",
            'Not found: "prefil"',
            fix="did you mean 'prefill'?",
        )
    ]


def test_component_in_two_groups_is_refused() -> None:
    answer = read_groups(group("a", 1, "prefill"), group("a", 1, "prefill"))
    assert answer.findings == [
        error("dynamo/component-group", f"{GROUPS}[1].name", 'Duplicate value: "a"', fix="rename one"),
        error(
            "dynamo/component-group",
            f"{GROUPS}[1].components[0].name",
            "component prefill is in more than one group",
            fix="keep it in one of them",
        ),
    ]
