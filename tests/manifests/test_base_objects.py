"""What the pods, accounts and roles of the base and the prune Job say, field by field."""

import pytest
from tests.manifests.support import Manifests, environment
from toposcope import __version__

pytestmark = pytest.mark.regression

RESTRICTED_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
CONTROLLER_SELECTOR = {
    "matchLabels": {
        "app.kubernetes.io/component": "controller",
        "app.kubernetes.io/instance": "toposcope",
        "app.kubernetes.io/name": "toposcope",
    }
}
LIVENESS = {"path": "/healthz", "port": "metrics"}
READINESS = {"path": "/readyz", "port": "metrics"}


def assert_pod_is_restricted(manifests: Manifests, program: str) -> None:
    """Pod Security `restricted`, as an unprivileged user, and nothing of the host."""
    spec = manifests.pod_spec(program)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["runAsGroup"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert manifests.container(program)["securityContext"] == RESTRICTED_CONTAINER
    for host_field in ("hostNetwork", "hostPID", "hostIPC"):
        assert host_field not in spec, host_field
    assert "initContainers" not in spec


def test_agent_pod_is_restricted(base: Manifests) -> None:
    assert_pod_is_restricted(base, "agent")
    assert "volumes" not in base.pod_spec("agent")


def test_agent_command_ports_and_probes_agree(base: Manifests) -> None:
    agent = base.container("agent")
    assert agent["image"] == f"toposcope:{__version__}"
    assert agent["args"] == ["agent", "--metrics-port", "9464"]
    assert agent["ports"] == [{"name": "metrics", "containerPort": 9464}]
    assert agent["livenessProbe"]["httpGet"] == LIVENESS
    assert agent["readinessProbe"]["httpGet"] == READINESS


def test_agent_sees_every_gpu_and_takes_none(base: Manifests) -> None:
    assert base.pod_spec("agent")["runtimeClassName"] == "nvidia"
    agent = base.container("agent")
    variables = environment(agent)
    assert variables["NVIDIA_VISIBLE_DEVICES"]["value"] == "all"
    assert variables["NVIDIA_DRIVER_CAPABILITIES"]["value"] == "utility"
    assert variables["NODE_NAME"]["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"
    assert "nvidia.com/gpu" not in agent["resources"]["limits"]
    assert "nvidia.com/gpu" not in agent["resources"]["requests"]


def test_agent_survives_pressure_and_rolls_out_in_steps(base: Manifests) -> None:
    agents = base.get("DaemonSet", "toposcope-agent")
    strategy = agents["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"]["maxUnavailable"] == "10%"
    pod = base.pod_spec("agent")
    assert pod["priorityClassName"] == "system-node-critical"


def test_controller_pod_is_restricted(base: Manifests) -> None:
    assert_pod_is_restricted(base, "controller")


def test_controller_command_ports_and_probes_agree(base: Manifests) -> None:
    controller = base.container("controller")
    assert controller["image"] == f"toposcope:{__version__}"
    assert controller["args"] == [
        "controller",
        "--metrics-port",
        "9465",
        "--config",
        "/etc/toposcope/config.yaml",
        "--leader-elect",
    ]
    assert controller["ports"] == [{"name": "metrics", "containerPort": 9465}]
    assert controller["livenessProbe"]["httpGet"] == LIVENESS
    assert controller["readinessProbe"]["httpGet"] == READINESS


def test_controller_configuration_is_optional_and_its_changes_are_seen(base: Manifests) -> None:
    # A mounted folder follows its ConfigMap, a mounted file does not.
    (volume,) = base.pod_spec("controller")["volumes"]
    assert volume == {
        "name": "config",
        "configMap": {"name": "toposcope-config", "optional": True},
    }
    (mount,) = base.container("controller")["volumeMounts"]
    assert mount == {
        "name": "config",
        "mountPath": "/etc/toposcope",
        "readOnly": True,
    }


def test_controller_is_replaced_before_it_goes(base: Manifests) -> None:
    controllers = base.get("Deployment", "toposcope-controller")["spec"]
    assert controllers["replicas"] == 2
    assert controllers["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert base.pod_spec("controller")["priorityClassName"] == "system-cluster-critical"
    assert controllers["selector"] == CONTROLLER_SELECTOR
    assert base.get("PodDisruptionBudget", "toposcope-controller")["spec"] == {
        "minAvailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": CONTROLLER_SELECTOR,
    }


def test_controllers_run_on_different_nodes_and_zones(base: Manifests) -> None:
    """Pods that a rollout ends do not count (matchLabelKeys).

    One constraint only: with a second, a Node without the second's label would not count for the first.
    """
    spec = base.pod_spec("controller")
    assert spec["topologySpreadConstraints"] == [
        {
            "topologyKey": "kubernetes.io/hostname",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "matchLabelKeys": ["pod-template-hash"],
            "labelSelector": CONTROLLER_SELECTOR,
        }
    ]
    anti_affinity = spec["affinity"]["podAntiAffinity"]
    assert anti_affinity["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "topology.kubernetes.io/zone",
                "matchLabelKeys": ["pod-template-hash"],
                "labelSelector": CONTROLLER_SELECTOR,
            },
        }
    ]


@pytest.mark.parametrize("program", ["agent", "controller"])
def test_token_is_mounted_only_where_it_is_used(base: Manifests, program: str) -> None:
    name = f"toposcope-{program}"
    pod = base.pod_spec(program)
    assert pod["serviceAccountName"] == name
    assert pod["automountServiceAccountToken"] is True
    account = base.get("ServiceAccount", name)
    assert account["automountServiceAccountToken"] is False


def test_token_of_the_prune_job_is_mounted_only_in_its_pod(prune: Manifests) -> None:
    pod = prune.pod_spec("prune")
    assert pod["serviceAccountName"] == "toposcope-prune"
    assert pod["automountServiceAccountToken"] is True
    account = prune.get("ServiceAccount", "toposcope-prune")
    assert account["automountServiceAccountToken"] is False


@pytest.mark.parametrize("mode", ["enforce", "warn", "audit"])
def test_namespace_is_restricted(base: Manifests, mode: str) -> None:
    labels = base.get("Namespace", "toposcope-system")["metadata"]["labels"]
    assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_default_topology_leaves_everything_to_inference(base: Manifests) -> None:
    assert base.get("ClusterTopology", "cluster")["spec"] == {}


def test_controller_role_elects_plans_and_looks_at_agents(base: Manifests) -> None:
    assert base.get("Role", "toposcope-controller")["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["toposcope-controller"],
            "verbs": ["get", "update"],
        },
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["toposcope-node-plan"],
            "verbs": ["get", "create", "patch"],
        },
        {"apiGroups": ["apps"], "resources": ["daemonsets"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    ]
