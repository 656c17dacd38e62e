"""The kustomize components: every set of them builds, changes what it says and nothing else, and is admitted."""

import copy
import itertools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.compat import KEYS
from tests.manifests.support import MANIFESTS, NAMESPACE, Manifests, run_kubectl
from tests.support.api import MERGE, NODES, ApiUnderTest, node, pod_token, wait_until

COMPONENTS = MANIFESTS / "components"
NAMES = sorted(folder.parent.name for folder in COMPONENTS.glob("*/kustomization.yaml"))
# The base includes the first, other components the second: an admin names neither.
INCLUDED = ("admission-policy", "pod-security-privileged")
OPTIONS = tuple(name for name in NAMES if name not in INCLUDED)
UNCONFINED = ("host-sysfs", "privileged-runtime")
# Their kinds are the Prometheus operator's, whose CRDs are not at hand.
OPERATED = ("pod-monitor", "prometheus-rule")
ADMITTED = tuple(name for name in OPTIONS if name not in OPERATED)

Render = Callable[..., Manifests]


@pytest.fixture
def overlay(tmp_path: Path) -> Callable[..., Path]:
    """Writes an overlay of the base with some components, as an admin does."""

    def written(*components: str) -> Path:
        def there(path: Path) -> str:
            return os.path.relpath(path, folder)

        folder = tmp_path.resolve() / ("-".join(components) or "none")
        folder.mkdir()
        text = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [there(MANIFESTS / "base")],
            "components": [there(COMPONENTS / name) for name in components],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
        return folder

    return written


@pytest.fixture
def render(kubectl: str, overlay: Callable[..., Path]) -> Render:
    def rendered(*components: str) -> Manifests:
        done = run_kubectl(kubectl, "kustomize", overlay(*components))
        assert done.stderr == ""
        return Manifests(list(yaml.safe_load_all(done.stdout)))

    return rendered


def by_name(manifests: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(o["kind"], o["metadata"]["name"]): o for o in manifests}


def changed(base: Manifests, other: Manifests) -> set[tuple[str, str]]:
    before, after = by_name(base), by_name(other)
    assert before.keys() <= after.keys()
    return {name for name, o in after.items() if before.get(name) != o}


def container(manifests: Manifests) -> dict[str, Any]:
    (only,) = manifests.pod_template("agent")["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def policy(manifests: Manifests) -> dict[str, Any]:
    return manifests.get("ValidatingAdmissionPolicy", "toposcope-agent.gpu.topology")


def test_the_readme_names_every_component() -> None:
    rows = [line.split("`")[1] for line in (COMPONENTS / "README.md").read_text().splitlines() if line[:3] == "| `"]
    assert sorted(rows) == NAMES


def test_no_component_is_the_base(base: Manifests, render: Render) -> None:
    assert changed(base, render()) == set()


def test_the_base_has_the_admission_policies(base: Manifests) -> None:
    folder = COMPONENTS / "admission-policy"
    files = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    wanted = {
        (o["kind"], o["metadata"]["name"]) for file in files for o in yaml.safe_load_all((folder / file).read_text())
    }
    assert wanted
    assert wanted <= by_name(base).keys()


DAEMON_SET = ("DaemonSet", "toposcope-agent")
TOUCHED = {
    "default-runtime": {DAEMON_SET},
    "grafana-dashboard": {("ConfigMap", "toposcope-dashboard")},
    "host-sysfs": {DAEMON_SET, ("Namespace", "toposcope-system")},
    "network-policy": {("NetworkPolicy", "toposcope")},
    "nvidia-labels": {DAEMON_SET, ("ValidatingAdmissionPolicy", "toposcope-agent.gpu.topology")},
    "pod-monitor": {("PodMonitor", "toposcope-agent"), ("PodMonitor", "toposcope-controller")},
    "privileged-runtime": {DAEMON_SET, ("Namespace", "toposcope-system")},
    "prometheus-rule": {("PrometheusRule", "toposcope")},
    "ui": {
        (kind, "toposcope-ui")
        for kind in (
            "ClusterRole",
            "ClusterRoleBinding",
            "Deployment",
            "NetworkPolicy",
            "Service",
            "ServiceAccount",
        )
    },
}
# What touches nothing that another touches cannot be in its way.
SHARING = [(a, b) for a, b in itertools.combinations(TOUCHED, 2) if TOUCHED[a] & TOUCHED[b]]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_component_touches_what_it_says(base: Manifests, render: Render, name: str) -> None:
    assert changed(base, render(name)) == TOUCHED[name]


def test_the_default_runtime_needs_no_class(base: Manifests, render: Render) -> None:
    wanted = copy.deepcopy(base.pod_template("agent"))
    del wanted["spec"]["runtimeClassName"]
    assert render("default-runtime").pod_template("agent") == wanted


def test_the_agent_reads_the_hosts_sysfs_and_cannot_write_it(render: Render) -> None:
    found = render("host-sysfs")
    assert container(found)["args"][-1] == "--sysfs=/host/sys"
    (mount,) = container(found)["volumeMounts"]
    (volume,) = found.pod_template("agent")["spec"]["volumes"]
    assert mount == {"name": volume["name"], "mountPath": "/host/sys", "readOnly": True}
    assert volume["hostPath"] == {"path": "/sys", "type": "Directory"}


def test_a_privileged_runtime_gives_a_user_without_rights_one_capability(base: Manifests, render: Render) -> None:
    found = render("privileged-runtime")
    assert (
        found.pod_template("agent")["spec"]["securityContext"]
        == (base.pod_template("agent")["spec"]["securityContext"])
    )
    assert container(found)["securityContext"] == {
        "allowPrivilegeEscalation": True,
        "readOnlyRootFilesystem": True,
        "capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]},
    }


def test_the_labels_that_the_agent_may_write_are_those_that_it_writes(render: Render) -> None:
    found = render("nvidia-labels")
    assert container(found)["args"][-1] == "--nvidia-labels"
    (more,) = (v["expression"] for v in policy(found)["spec"]["variables"] if v["name"] == "moreLabels")
    assert set(yaml.safe_load(more)) == KEYS


def test_the_network_policy_lets_metrics_in_and_the_api_server_be_reached(render: Render) -> None:
    found = render("network-policy")
    spec = found.get("NetworkPolicy", "toposcope")["spec"]
    assert spec["podSelector"] == {}
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    (ingress,), (egress,) = spec["ingress"], spec["egress"]
    served = {
        c["containerPort"]
        for program in ("agent", "controller")
        for c in found.pod_template(program)["spec"]["containers"][0]["ports"]
    }
    assert {port["port"] for port in ingress["ports"]} == served
    assert {port["port"] for port in egress["ports"]} == {443, 6443}


@pytest.mark.parametrize("order", [OPTIONS, OPTIONS[::-1]])
def test_all_together_build_in_any_order(render: Render, order: tuple[str, ...]) -> None:
    found = render(*order)
    assert changed(render(), found) == set().union(*TOUCHED.values())
    assert set(container(found)["args"]) >= {"--nvidia-labels", "--sysfs=/host/sys"}


@pytest.mark.parametrize("pair", SHARING, ids="+".join)
def test_any_two_build(base: Manifests, render: Render, pair: tuple[str, str]) -> None:
    assert changed(base, render(*pair)) == TOUCHED[pair[0]] | TOUCHED[pair[1]]


def admits(api: ApiUnderTest, found: Manifests, program: str) -> str:
    """Why a pod of the program is refused; nothing when it is admitted."""
    code, answer = api.request("POST", f"{NAMESPACE}/pods?dryRun=All", found.pod(program, "tried"))
    return "" if code == 201 else answer["message"]


@pytest.mark.real_api("Pod Security admission and the checks of every kind")
@pytest.mark.parametrize("components", [*((name,) for name in ADMITTED), ADMITTED], ids="+".join)
def test_a_real_api_server_takes_it_and_admits_the_pods(
    installed: ApiUnderTest, kubectl: str, overlay: Callable[..., Path], components: tuple[str, ...]
) -> None:
    folder = overlay(*components)
    found = Manifests(list(yaml.safe_load_all(run_kubectl(kubectl, "kustomize", folder).stdout)))
    unconfined = not set(components).isdisjoint(UNCONFINED)
    assert ("violates PodSecurity" in admits(installed, found, "agent")) == unconfined
    done = run_kubectl(kubectl, "--kubeconfig", installed.kubeconfig, "apply", "--server-side", "-k", folder)
    assert done.stderr == ""
    assert [admits(installed, found, program) for program in ("agent", "controller")] == ["", ""]


@pytest.mark.real_api("RBAC, TokenRequest and ValidatingAdmissionPolicy")
def test_with_the_component_the_agent_may_write_five_labels_of_others_on_its_own_node(
    installed: ApiUnderTest, kubectl: str, overlay: Callable[..., Path], base: Manifests
) -> None:
    def write(name: str, key: str, value: str | None = "x") -> str:
        body = {"metadata": {"labels": {key: value}}}
        code, answer = installed.request("PATCH", f"{NODES}/{name}", body, content_type=MERGE, token=token)
        return "" if code == 200 else answer["message"]

    folder = overlay("nvidia-labels")
    run_kubectl(kubectl, "--kubeconfig", installed.kubeconfig, "apply", "--server-side", "-k", folder)
    for name in ("own", "other"):
        installed.create(NODES, node(name, labels={"nvidia.com/mig.config": "all-disabled"}))
    pod = installed.create(f"{NAMESPACE}/pods", base.pod("agent", "writer", nodeName="own"))
    token = pod_token(installed, pod)
    wait_until(lambda: not write("own", min(KEYS)), "the agent may write")
    # Another value each time: one that got through before the policy was in force could be written again and again.
    tries = itertools.count()
    wait_until(
        lambda: "only write labels" in write("own", "example.com/a", f"x{next(tries)}"), "the policy is in force"
    )
    assert [write("own", key) for key in sorted(KEYS)] == [""] * len(KEYS)
    assert [write("own", key, None) for key in sorted(KEYS)] == [""] * len(KEYS)
    for key in ("nvidia.com/mig.config", "nvidia.com/gpu.present", "nvidia.com/gpu"):
        assert "only write labels under gpu.topology/" in write("own", key)
    assert "only write labels under gpu.topology/" in write("own", "nvidia.com/mig.config", None)
    assert "may not write node other" in write("other", min(KEYS))
