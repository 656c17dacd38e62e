"""What the rendered base promises, checked without a cluster."""

import re
from collections import Counter

import pytest
from tests.manifests.support import Manifests, assert_starts_quietly
from toposcope import __version__
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.controller.election import Timing
from toposcope.controller.options import LEASE

PROGRAMS = ("agent", "controller")
SELECTED_BY = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}


def test_every_object_appears_once(base: Manifests) -> None:
    counts = Counter((item["kind"], item["metadata"]["name"]) for item in base)
    repeated = [name for name, count in counts.items() if count > 1]
    assert repeated == []


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


@pytest.mark.parametrize(("kind", "program"), [("DaemonSet", "agent"), ("Deployment", "controller")])
def test_selectors_use_only_labels_that_no_upgrade_changes(base: Manifests, kind: str, program: str) -> None:
    spec = base.get(kind, f"toposcope-{program}")["spec"]
    selector = spec["selector"]["matchLabels"]
    assert set(selector) == SELECTED_BY
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()
    assert selector["app.kubernetes.io/component"] == program


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
    assert spec["terminationGracePeriodSeconds"] > 3 * Timing().request


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
    names = sorted(policy["metadata"]["name"] for policy in policies)
    assert names
    assert sorted(binding["spec"]["policyName"] for binding in bindings) == names


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


@pytest.mark.parametrize(("program", "count"), [("agent", 2), ("controller", 3)])
def test_policies_confine_the_account_of_a_program(base: Manifests, program: str, count: int) -> None:
    account = base.pod_spec(program)["serviceAccountName"]
    policies = [
        policy["spec"]
        for policy in base.of_kind("ValidatingAdmissionPolicy")
        if policy["metadata"]["name"].startswith(f"toposcope-{program}")
    ]
    assert len(policies) == count
    for policy in policies:
        (condition,) = policy["matchConditions"]
        match = re.fullmatch(r"request[.]userInfo[.]username[.]matches[(]'(.+)'[)]", condition["expression"])
        assert match
        for user in CONFINED_USERS:
            assert re.search(match[1], user.format(account=account)), user
        for user in FREE_USERS:
            assert not re.search(match[1], user.format(account=account)), user


def test_nobody_is_granted_a_wildcard_or_a_way_to_make_nodes(base: Manifests) -> None:
    for role in base.of_kind("Role", "ClusterRole"):
        name = role["metadata"]["name"]
        for rule in role["rules"]:
            for words in rule.values():
                assert "*" not in words, name
            if "nodes" in rule["resources"]:
                assert set(rule["verbs"]) <= {"get", "list", "watch", "patch"}, name
