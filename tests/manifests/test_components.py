"""The kustomize components: each builds, alone and with all others, changes what it says, and is admitted."""

import copy
import re
from typing import Any

import pytest
import yaml
from tests.manifests.support import COMPONENTS, NAMESPACE, Manifests, Render, changed, run_kubectl, variables_of
from tests.support.api import ApiUnderTest, wait_until
from toposcope.agent.nvidia_labels import KEYS

NAMES = sorted(folder.parent.name for folder in COMPONENTS.glob("*/kustomization.yaml"))
# The base includes the first, other components the second: an admin names neither.
INCLUDED = ("admission-policy", "pod-security-privileged")
OPTIONS = tuple(name for name in NAMES if name not in INCLUDED)
UNCONFINED = ("bottlerocket", "gke", "host-sysfs", "privileged-runtime", "switches", "vital-product-data")
# Their kinds are the Prometheus operator's: tests/monitoring/test_operator.py puts them before its CRDs.
OPERATED = ("pod-monitor", "prometheus-rule")
ADMITTED = tuple(name for name in OPTIONS if name not in OPERATED)

AGENT = ("DaemonSet", "toposcope-agent")
NAMESPACE_OBJECT = ("Namespace", "toposcope-system")
TOUCHED: dict[str, set[tuple[str, str]]] = {
    "aks": {AGENT},
    "binding-labels": {
        ("CustomResourceDefinition", "nodepaths.gpu.topology"),
        ("Deployment", "toposcope-controller"),
        ("MutatingAdmissionPolicy", "toposcope-binding-labels.gpu.topology"),
        ("MutatingAdmissionPolicyBinding", "toposcope-binding-labels.gpu.topology"),
        ("Role", "toposcope-controller-node-paths"),
        ("RoleBinding", "toposcope-controller-node-paths"),
        ("ValidatingAdmissionPolicy", "toposcope-path-labels.gpu.topology"),
        ("ValidatingAdmissionPolicyBinding", "toposcope-path-labels.gpu.topology"),
    },
    "bottlerocket": {AGENT, NAMESPACE_OBJECT},
    "default-runtime": {AGENT},
    "dra-claim": {AGENT, NAMESPACE_OBJECT, ("ResourceClaimTemplate", "toposcope-agent-gpus")},
    "eks": {AGENT},
    "gke": {AGENT, NAMESPACE_OBJECT, ("ResourceQuota", "toposcope")},
    "grafana-dashboard": {("ConfigMap", "toposcope-dashboard")},
    "host-sysfs": {AGENT, NAMESPACE_OBJECT},
    "network-policy": {("NetworkPolicy", "toposcope")},
    "node-endpoint": {
        AGENT,
        ("NetworkPolicy", "toposcope-node-endpoint"),
        ("Role", "toposcope-agent-node-endpoint"),
        ("RoleBinding", "toposcope-agent-node-endpoint"),
        ("Service", "toposcope-node"),
    },
    "nvidia-labels": {AGENT, ("ValidatingAdmissionPolicy", "toposcope-agent.gpu.topology")},
    "openshift": {("RoleBinding", "toposcope-nonroot-v2")},
    "pod-monitor": {
        ("PodMonitor", "toposcope-agent"),
        ("PodMonitor", "toposcope-controller"),
        ("PodMonitor", "toposcope-ui"),
    },
    "privileged-runtime": {AGENT, NAMESPACE_OBJECT},
    "prometheus-rule": {("PrometheusRule", "toposcope")},
    "slice-audit": {AGENT, ("ClusterRole", "toposcope-agent-slices"), ("ClusterRoleBinding", "toposcope-agent-slices")},
    "slinky": {
        AGENT,
        ("ClusterRole", "toposcope-agent-slinky"),
        ("ClusterRoleBinding", "toposcope-agent-slinky"),
        ("Role", "toposcope-agent-slinky"),
        ("RoleBinding", "toposcope-agent-slinky"),
    },
    "switches": {
        NAMESPACE_OBJECT,
        ("ClusterRole", "toposcope-switches"),
        ("ClusterRoleBinding", "toposcope-switches"),
        ("DaemonSet", "toposcope-switches"),
        ("ServiceAccount", "toposcope-switches"),
        ("ValidatingAdmissionPolicy", "toposcope-switches.gpu.topology"),
        ("ValidatingAdmissionPolicyBinding", "toposcope-switches.gpu.topology"),
    },
    "switches-infiniband": set(),
    "ui": {
        ("ClusterRole", "toposcope-ui"),
        ("ClusterRoleBinding", "toposcope-ui"),
        ("Deployment", "toposcope-ui"),
        ("NetworkPolicy", "toposcope-ui"),
        ("Role", "toposcope-ui"),
        ("RoleBinding", "toposcope-ui"),
        ("Service", "toposcope-ui"),
        ("ServiceAccount", "toposcope-ui"),
    },
    "unique-values": {
        AGENT,
        ("Role", "toposcope-agent-unique-values"),
        ("RoleBinding", "toposcope-agent-unique-values"),
    },
    "vital-product-data": {AGENT, NAMESPACE_OBJECT},
}
"""Kinds and names of the objects that each component changes or adds."""


def test_readme_names_every_component() -> None:
    page = (COMPONENTS / "README.md").read_text()
    named = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    assert sorted(named) == NAMES


def test_overlay_without_components_is_the_base(base: Manifests, render: Render) -> None:
    assert changed(base, render()) == set()


def test_base_has_the_admission_policies(base: Manifests) -> None:
    folder = COMPONENTS / "admission-policy"
    kustomization = yaml.load((folder / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    files = kustomization["resources"]
    assert files
    for file in files:
        text = (folder / file).read_text()
        policies = Manifests(list(yaml.load_all(text, yaml.CSafeLoader)))
        assert policies.by_name().keys() <= base.by_name().keys(), file


@pytest.mark.parametrize("name", OPTIONS)
def test_component_touches_what_it_says(base: Manifests, render: Render, name: str) -> None:
    assert changed(base, render(name)) == TOUCHED[name]


def test_default_runtime_needs_no_class(base: Manifests, render: Render) -> None:
    expected = copy.deepcopy(base.pod_template("agent"))
    del expected["spec"]["runtimeClassName"]
    assert render("default-runtime").pod_template("agent") == expected


def agent_node_terms(manifests: Manifests) -> list[dict[str, Any]]:
    """What makes a node one of the agent's; each of them is enough."""
    affinity = manifests.pod_spec("agent")["affinity"]["nodeAffinity"]
    required = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"]


def test_taint_of_gpu_nodes_is_tolerated(base: Manifests) -> None:
    of_gpus = []
    for toleration in base.pod_spec("agent")["tolerations"]:
        if toleration.get("key") == "nvidia.com/gpu":
            of_gpus.append(toleration)
    assert of_gpus == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("platform", "keys"),
    [
        pytest.param("aks", ["kubernetes.azure.com/accelerator"], id="aks"),
        pytest.param(
            "eks",
            [
                "karpenter.k8s.aws/instance-gpu-manufacturer",
                "eks.amazonaws.com/instance-gpu-manufacturer",
            ],
            id="eks",
        ),
    ],
)
def test_labels_of_a_platform_find_its_gpu_nodes(
    base: Manifests, render: Render, platform: str, keys: list[str]
) -> None:
    manifests = render(platform)
    expected = agent_node_terms(base)
    for key in keys:
        expression = {"key": key, "operator": "In", "values": ["nvidia"]}
        expected = [*expected, {"matchExpressions": [expression]}]
    assert agent_node_terms(manifests) == expected
    assert "runtimeClassName" not in manifests.pod_spec("agent")


def test_bottlerocket_finds_gpu_nodes_as_eks_does(render: Render) -> None:
    assert agent_node_terms(render("bottlerocket")) == agent_node_terms(render("eks"))


def test_on_openshift_every_program_may_run_as_its_user(base: Manifests, prune: Manifests, render: Render) -> None:
    accounts = set()
    for manifests in (base, prune):
        for account in manifests.of_kind("ServiceAccount"):
            accounts.add(account["metadata"]["name"])
    binding = render("openshift").get("RoleBinding", "toposcope-nonroot-v2")
    bound = set()
    for subject in binding["subjects"]:
        assert subject["namespace"] == "toposcope-system"
        bound.add(subject["name"])
    assert bound == accounts


def test_labels_that_the_agent_may_write_are_those_that_it_writes(render: Render) -> None:
    manifests = render("nvidia-labels")
    arguments = manifests.container("agent")["args"]
    assert arguments[-1] == "--nvidia-labels"
    policy = manifests.get("ValidatingAdmissionPolicy", "toposcope-agent.gpu.topology")
    labels = yaml.load(variables_of(policy)["moreLabels"], yaml.CSafeLoader)
    assert set(labels) == KEYS


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(OPTIONS, id="sorted"),
        pytest.param(OPTIONS[::-1], id="reversed"),
    ],
)
def test_all_components_build_in_any_order(render: Render, order: tuple[str, ...]) -> None:
    manifests = render(*order)
    expected: set[tuple[str, str]] = set()
    for touched in TOUCHED.values():
        expected |= touched
    assert changed(render(), manifests) == expected
    arguments = manifests.container("agent")["args"]
    assert "--nvidia-labels" in arguments
    assert "--sysfs=/host/sys" in arguments


def refusal_of_pod(api: ApiUnderTest, manifests: Manifests, program: str) -> str:
    """Why a pod of the program is refused; nothing when it is admitted."""
    pod = manifests.pod(
        program,
        "tried",
        serviceAccountName="toposcope-agent",  # an account that is there
    )
    code, answer = api.request("POST", f"{NAMESPACE}/pods?dryRun=All", pod)
    if code == 201:
        return ""
    message: str = answer["message"]
    return message


def label_namespace(api: ApiUnderTest, manifests: Manifests) -> None:
    """Give the namespace the labels of Pod Security that these manifests ask for."""
    namespace = manifests.get("Namespace", "toposcope-system")
    labels = namespace["metadata"]["labels"]
    api.patch(NAMESPACE, {"metadata": {"labels": labels}})


INSTALLS = [pytest.param((name,), id=name) for name in ADMITTED if TOUCHED[name]]
INSTALLS.append(pytest.param(ADMITTED, id="all"))


@pytest.mark.slow
@pytest.mark.parametrize("components", INSTALLS)
def test_real_api_server_takes_a_component_and_admits_its_pods(
    installed_once: ApiUnderTest, kubectl: str, render: Render, base: Manifests, components: tuple[str, ...]
) -> None:
    api = installed_once
    manifests = render(*components)
    unconfined_program = "switches" if components == ("switches",) else "agent"

    def violates_pod_security() -> bool:
        return "violates PodSecurity" in refusal_of_pod(api, manifests, unconfined_program)

    # Admission watches namespaces: right after a write it may still judge by the old labels.
    label_namespace(api, base)
    if set(components).isdisjoint(UNCONFINED):
        wait_until(lambda: not violates_pod_security(), "admitted by the base's namespace")
    else:
        wait_until(violates_pod_security, "refused by the base's namespace")
    label_namespace(api, manifests)
    wait_until(lambda: not violates_pod_security(), "admitted by the component's namespace")

    assert refusal_of_pod(api, manifests, "agent") == ""
    assert refusal_of_pod(api, manifests, "controller") == ""
    if "switches" in components:
        assert refusal_of_pod(api, manifests, "switches") == ""

    objects = manifests.by_name()
    changes = [objects[name] for name in changed(base, manifests)]
    done = run_kubectl(
        kubectl,
        "--kubeconfig",
        api.kubeconfig,
        "apply",
        "--server-side",
        "--dry-run=server",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(changes),
    )
    assert done.stderr == ""
