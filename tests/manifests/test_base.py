"""What the rendered base promises, checked without a cluster."""

import re
from typing import Any

import pytest
from tests.manifests.support import Manifests, assert_starts_quietly
from toposcope import __version__
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.election import Timing
from toposcope.controller.options import LEASE

PROGRAMS = ("agent", "controller")
SELECTED_BY = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}


def test_every_object_appears_once(base: Manifests) -> None:
    seen = set()
    for item in base:
        name = (item["kind"], item["metadata"]["name"])
        assert name not in seen
        seen.add(name)


def test_namespaced_objects_live_in_the_namespace_of_the_install(base: Manifests) -> None:
    for item in base:
        metadata = item["metadata"]
        assert metadata.get("namespace", "toposcope-system") == "toposcope-system", metadata["name"]


def test_every_object_carries_the_recommended_labels(base: Manifests) -> None:
    recommended = {
        "app.kubernetes.io/name": "toposcope",
        "app.kubernetes.io/instance": "toposcope",
        "app.kubernetes.io/part-of": "toposcope",
        "app.kubernetes.io/managed-by": "kustomize",
        "app.kubernetes.io/version": __version__,
    }
    for item in base:
        labels = item["metadata"]["labels"]
        assert recommended.items() <= labels.items(), item["kind"]


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        pytest.param("DaemonSet", "agent", id="agent"),
        pytest.param("Deployment", "controller", id="controller"),
    ],
)
def test_selectors_use_only_labels_that_no_upgrade_changes(base: Manifests, kind: str, program: str) -> None:
    workload = base.get(kind, f"toposcope-{program}")
    selector = workload["spec"]["selector"]["matchLabels"]
    assert selector.keys() == SELECTED_BY
    assert selector["app.kubernetes.io/component"] == program
    labels = base.pod_template(program)["metadata"]["labels"]
    assert selector.items() <= labels.items()


@pytest.mark.regression
@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_is_limited_and_cpu_is_not(base: Manifests, program: str) -> None:
    container = base.container(program)
    assert_starts_quietly(container)
    resources = container["resources"]
    assert set(resources["limits"]) == {"memory"}
    assert set(resources["requests"]) == {"cpu", "memory"}


def test_controller_has_time_to_give_its_lease_back(base: Manifests) -> None:
    spec = base.pod_spec("controller")
    # The elector's last request and the one that gives back, both at their slowest, leave time for a pass.
    assert spec["terminationGracePeriodSeconds"] > 3 * Timing().request_seconds


def test_controller_may_elect_only_where_it_runs(base: Manifests) -> None:
    deployment = base.get("Deployment", "toposcope-controller")
    role = base.get("Role", "toposcope-controller")
    binding = base.get("RoleBinding", "toposcope-controller")
    for item in (deployment, role, binding):
        assert item["metadata"]["namespace"] == HOME_NAMESPACE, item["kind"]
    assert role["rules"][1]["resourceNames"] == [LEASE]
    for rule in base.get("ClusterRole", "toposcope-controller")["rules"]:
        assert "coordination.k8s.io" not in rule["apiGroups"]


def test_policies_are_bound_and_fail_closed(base: Manifests) -> None:
    policies = base.of_kind("ValidatingAdmissionPolicy")
    bindings = base.of_kind("ValidatingAdmissionPolicyBinding")
    for policy in policies:
        assert policy["spec"]["failurePolicy"] == "Fail"
    for binding in bindings:
        assert binding["spec"]["validationActions"] == ["Deny"]
    names = [policy["metadata"]["name"] for policy in policies]
    bound = [binding["spec"]["policyName"] for binding in bindings]
    assert names
    assert sorted(bound) == sorted(names)


CONFINED_USERS = (
    "system:serviceaccount:toposcope-system:{account}",
    "system:serviceaccount:gpu-fleet:{account}",
    "system:serviceaccount:a:acme-{account}-eu",
)
FREE_USERS = (
    "system:serviceaccount:{account}:x",
    "system:serviceaccount:{account}:toposcope-ui",
    "system:serviceaccount:a:b:{account}",
    "system:serviceaccount:a",
    "system:serviceaccount:",
    "someone:a:{account}",
)


def policies_of(base: Manifests, program: str) -> list[dict[str, Any]]:
    """The policies that confine a program."""
    policies = []
    for policy in base.of_kind("ValidatingAdmissionPolicy"):
        name = policy["metadata"]["name"]
        if name.startswith(f"toposcope-{program}"):
            policies.append(policy)
    return policies


def confined_users(policy: dict[str, Any]) -> str:
    """The regular expression of the users whom a policy confines."""
    (condition,) = policy["spec"]["matchConditions"]
    match = re.fullmatch(
        r"request[.]userInfo[.]username[.]matches[(]'(.+)'[)]",
        condition["expression"],
    )
    assert match
    return match[1]


@pytest.mark.parametrize(
    ("program", "count"),
    [
        pytest.param("agent", 2, id="agent"),
        pytest.param("controller", 3, id="controller"),
    ],
)
def test_policies_confine_the_account_of_a_program(base: Manifests, program: str, count: int) -> None:
    account = base.pod_spec(program)["serviceAccountName"]
    policies = policies_of(base, program)
    assert len(policies) == count
    for policy in policies:
        pattern = confined_users(policy)
        for template in CONFINED_USERS:
            user = template.format(account=account)
            assert re.search(pattern, user), user
        for template in FREE_USERS:
            user = template.format(account=account)
            assert not re.search(pattern, user), user


def test_nobody_is_granted_a_wildcard_or_a_way_to_make_nodes(base: Manifests) -> None:
    for role in base.of_kind("Role", "ClusterRole"):
        name = role["metadata"]["name"]
        for rule in role["rules"]:
            for words in rule.values():
                assert "*" not in words, name
            if "nodes" in rule["resources"]:
                assert set(rule["verbs"]) <= {"get", "list", "watch", "patch"}, name
