"""What the rendered base promises, checked without a cluster."""

import re
from collections import Counter
from typing import Any

import pytest

from tests.manifests.support import Manifests, assert_starts_quietly
from toposcope import __version__
from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.controller.election import Timing
from toposcope.controller.options import LEASE

PROGRAMS = ("agent", "controller")
SELECTED_BY = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}


def container(base: Manifests, program: str) -> dict[str, Any]:
    (only,) = base.pod_template(program)["spec"]["containers"]
    return only


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


@pytest.mark.parametrize("program", PROGRAMS)
def test_pods_ask_for_no_more_than_restricted_allows(base: Manifests, program: str) -> None:
    pod = base.pod_template(program)["spec"]
    of_pod, of_container = pod["securityContext"], container(base, program)["securityContext"]
    assert of_pod["runAsNonRoot"] is True
    assert (of_pod["runAsUser"], of_pod["runAsGroup"]) == (65532, 65532)
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys()
    kinds = [volume.keys() - {"name"} for volume in pod.get("volumes", ())]
    assert kinds == {"agent": [], "controller": [{"configMap"}]}[program]


@pytest.mark.parametrize(
    ("program", "port", "more"),
    [("agent", 9464, []), ("controller", 9465, ["--config", "/etc/toposcope/config.yaml", "--leader-elect"])],
)
def test_commands_ports_and_probes_fit_together(base: Manifests, program: str, port: int, more: list[str]) -> None:
    c = container(base, program)
    assert c["args"] == [program, "--metrics-port", str(port), *more]
    assert c["image"] == f"toposcope:{__version__}"
    assert c["ports"] == [{"name": "metrics", "containerPort": port}]
    assert c["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    assert c["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert_starts_quietly(c)


@pytest.mark.parametrize("program", [*PROGRAMS, "prune"])
def test_a_token_is_mounted_where_it_is_used_and_nowhere_else(base: Manifests, prune: Manifests, program: str) -> None:
    manifests = prune if program == "prune" else base
    spec = manifests.pod_template(program)["spec"]
    account = manifests.get("ServiceAccount", spec["serviceAccountName"])
    assert (spec["automountServiceAccountToken"], account["automountServiceAccountToken"]) == (True, False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_memory_is_limited_and_cpu_is_not(base: Manifests, program: str) -> None:
    resources = container(base, program)["resources"]
    assert set(resources["limits"]) == {"memory"}
    assert set(resources["requests"]) == {"cpu", "memory"}


def test_the_agent_sees_every_gpu_and_takes_none(base: Manifests) -> None:
    c = container(base, "agent")
    env = {e["name"]: e for e in c["env"]}
    assert env["NVIDIA_VISIBLE_DEVICES"]["value"] == "all"
    assert env["NVIDIA_DRIVER_CAPABILITIES"]["value"] == "utility"
    assert env["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert not any("gpu" in name for part in c["resources"].values() for name in part)


def test_the_agent_survives_pressure_and_rolls_out_in_steps(base: Manifests) -> None:
    spec = base.get("DaemonSet", "toposcope-agent")["spec"]
    assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "10%"
    assert spec["template"]["spec"]["priorityClassName"] == "system-node-critical"
    assert spec["template"]["spec"]["runtimeClassName"] == "nvidia"
    assert {"key": "nvidia.com/gpu", "operator": "Exists"} in spec["template"]["spec"]["tolerations"]


def test_another_controller_is_there_before_one_goes(base: Manifests) -> None:
    spec = base.get("Deployment", "toposcope-controller")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert spec["template"]["spec"]["priorityClassName"] == "system-cluster-critical"


def test_controllers_run_apart_and_a_drain_takes_one_at_a_time(base: Manifests) -> None:
    spec = base.get("Deployment", "toposcope-controller")["spec"]
    selector = spec["selector"]
    pod = spec["template"]["spec"]
    (spread,) = pod["topologySpreadConstraints"]  # one alone: a Node without the label of another would count for none
    (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    keys = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    # Not held against the pods that a rollout ends.
    same = {"labelSelector": selector, "matchLabelKeys": ["pod-template-hash"]}
    assert spread == keys | same
    assert apart["podAffinityTerm"] == {"topologyKey": "topology.kubernetes.io/zone"} | same
    budget = base.get("PodDisruptionBudget", "toposcope-controller")["spec"]
    assert budget == {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": selector}


def test_a_controller_has_time_to_give_its_lease_back(base: Manifests) -> None:
    spec = base.pod_template("controller")["spec"]
    # The elector's last request and the one that gives back, both at their slowest, leave time for a pass.
    assert spec["terminationGracePeriodSeconds"] > 3 * Timing().request


def test_the_controller_may_elect_and_look_at_agents_where_it_runs_and_nowhere_else(base: Manifests) -> None:
    rules = base.get("Role", "toposcope-controller")["rules"]
    granted = {(r["resources"][0], verb): r.get("resourceNames") for r in rules for verb in r["verbs"]}
    assert granted == {
        ("leases", "create"): None,
        ("leases", "get"): [LEASE],
        ("leases", "update"): [LEASE],
        ("daemonsets", "list"): None,
        ("events", "list"): None,
    }
    namespace = base.get("Deployment", "toposcope-controller")["metadata"]["namespace"]
    for kind in ("Role", "RoleBinding"):
        assert base.get(kind, "toposcope-controller")["metadata"]["namespace"] == namespace == HOME_NAMESPACE
    everywhere = base.get("ClusterRole", "toposcope-controller")["rules"]
    assert not any("coordination.k8s.io" in rule["apiGroups"] for rule in everywhere)


def test_the_namespace_enforces_restricted(base: Manifests) -> None:
    labels = base.get("Namespace", "toposcope-system")["metadata"]["labels"]
    assert [labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "warn", "audit")] == ["restricted"] * 3


def test_the_default_topology_leaves_everything_to_inference(base: Manifests) -> None:
    assert base.get("ClusterTopology", "cluster")["spec"] == {}


def test_policies_are_bound_and_fail_closed(base: Manifests) -> None:
    policies = [o for o in base if o["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [o["spec"] for o in base if o["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {p["spec"]["failurePolicy"] for p in policies} == {"Fail"}
    assert all(b["validationActions"] == ["Deny"] for b in bindings)
    assert sorted(b["policyName"] for b in bindings) == sorted(p["metadata"]["name"] for p in policies)


def test_the_configuration_is_optional_and_its_changes_are_seen(base: Manifests) -> None:
    (volume,) = base.pod_template("controller")["spec"]["volumes"]
    (mount,) = container(base, "controller")["volumeMounts"]
    assert volume["configMap"] == {"name": "toposcope-config", "optional": True}
    assert mount == {"name": volume["name"], "mountPath": "/etc/toposcope", "readOnly": True}


@pytest.mark.parametrize(("program", "kind", "policies"), [("agent", "DaemonSet", 2), ("controller", "Deployment", 4)])
def test_policies_speak_of_the_service_account_that_the_program_runs_as(
    base: Manifests, program: str, kind: str, policies: int
) -> None:
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
