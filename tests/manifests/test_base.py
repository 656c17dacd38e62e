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
    names = Counter((o["kind"], o["metadata"]["name"]) for o in base)
    assert [name for name, times in names.items() if times > 1] == []


def test_namespaced_objects_live_in_the_namespace_of_the_install(base: Manifests) -> None:
    assert {o["metadata"]["namespace"] for o in base if "namespace" in o["metadata"]} == {"toposcope-system"}


def test_every_object_carries_the_recommended_labels(base: Manifests) -> None:
    wanted = dict.fromkeys(("name", "instance", "part-of"), "toposcope")
    wanted |= {"managed-by": "kustomize", "version": __version__}
    for o in base:
        labels = o["metadata"]["labels"]
        assert {name: labels[f"app.kubernetes.io/{name}"] for name in wanted} == wanted, o["kind"]


@pytest.mark.parametrize(("kind", "program"), [("DaemonSet", "agent"), ("Deployment", "controller")])
def test_selectors_use_only_labels_that_no_upgrade_changes(base: Manifests, kind: str, program: str) -> None:
    spec = base.get(kind, f"toposcope-{program}")["spec"]
    selector = spec["selector"]["matchLabels"]
    assert set(selector) == SELECTED_BY
    assert selector.items() <= spec["template"]["metadata"]["labels"].items()
    assert selector["app.kubernetes.io/component"] == program


@pytest.mark.regression
@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_is_limited_and_cpu_is_not_and_a_start_is_quiet(base: Manifests, program: str) -> None:
    (only,) = base.pod_template(program)["spec"]["containers"]
    assert_starts_quietly(only)
    resources = only["resources"]
    assert set(resources["limits"]) == {"memory"}
    assert set(resources["requests"]) == {"cpu", "memory"}


def test_a_controller_has_time_to_give_its_lease_back(base: Manifests) -> None:
    spec = base.pod_template("controller")["spec"]
    # The elector's last request and the one that gives back, both at their slowest, leave time for a pass.
    assert spec["terminationGracePeriodSeconds"] > 3 * Timing().request


def test_the_controller_may_elect_and_look_at_agents_where_it_runs_and_nowhere_else(base: Manifests) -> None:
    assert base.get("Role", "toposcope-controller")["rules"][1]["resourceNames"] == [LEASE]
    namespace = base.get("Deployment", "toposcope-controller")["metadata"]["namespace"]
    for kind in ("Role", "RoleBinding"):
        assert base.get(kind, "toposcope-controller")["metadata"]["namespace"] == namespace == HOME_NAMESPACE
    everywhere = base.get("ClusterRole", "toposcope-controller")["rules"]
    assert not any("coordination.k8s.io" in rule["apiGroups"] for rule in everywhere)


def test_policies_are_bound_and_fail_closed(base: Manifests) -> None:
    policies = [o for o in base if o["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [o["spec"] for o in base if o["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {p["spec"]["failurePolicy"] for p in policies} == {"Fail"}
    assert all(b["validationActions"] == ["Deny"] for b in bindings)
    assert sorted(b["policyName"] for b in bindings) == sorted(p["metadata"]["name"] for p in policies)


@pytest.mark.parametrize(("program", "kind", "policies"), [("agent", "DaemonSet", 2), ("controller", "Deployment", 3)])
def test_policies_speak_of_a_program_s_account(base: Manifests, program: str, kind: str, policies: int) -> None:
    workload = base.get(kind, f"toposcope-{program}")
    account = workload["spec"]["template"]["spec"]["serviceAccountName"]
    about = [o for o in base if o["kind"] == "ValidatingAdmissionPolicy"]
    conditions = [
        o["spec"]["matchConditions"] for o in about if o["metadata"]["name"].startswith(f"toposcope-{program}")
    ]
    assert len(conditions) == policies
    for (condition,) in conditions:
        (pattern,) = re.findall(r"^request[.]userInfo[.]username[.]matches[(]'(.+)'[)]$", condition["expression"])
        confined = ("toposcope-system:{0}", "gpu-fleet:{0}", "a:acme-{0}-eu")
        free = ("{0}:x", "{0}:toposcope-ui", "a:b:{0}", "a", "")
        assert [u for u in confined + free if re.search(pattern, f"system:serviceaccount:{u.format(account)}")] == [
            *confined
        ]
        assert not re.search(pattern, f"someone:a:{account}")


def test_nobody_is_granted_a_wildcard_or_a_way_to_make_nodes(base: Manifests) -> None:
    for role in (o for o in base if o["kind"] in {"Role", "ClusterRole"}):
        for rule in role["rules"]:
            assert not any("*" in words for words in rule.values()), role["metadata"]["name"]
            if "nodes" in rule["resources"]:
                assert set(rule["verbs"]) <= {"get", "list", "watch", "patch"}, role["metadata"]["name"]
