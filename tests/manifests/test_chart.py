"""The Helm chart gives the objects that kustomize gives, whichever components are chosen."""

import copy
import functools
import itertools
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.manifests.support import run_kubectl, write_overlay
from tests.support.paths import MANIFESTS
from tests.support.programs import find_helm
from toposcope import __version__

pytestmark = pytest.mark.slow

NAMESPACE = "toposcope-system"
MANAGED_BY = "app.kubernetes.io/managed-by"
CHART = MANIFESTS / "chart"
SWITCHES = {
    "binding-labels": "components.bindingLabels",
    "default-runtime": "components.defaultRuntime",
    "dra-claim": "components.draClaim",
    "grafana-dashboard": "components.grafanaDashboard",
    "host-sysfs": "components.hostSysfs",
    "network-policy": "components.networkPolicy",
    "node-endpoint": "components.nodeEndpoint",
    "nvidia-labels": "components.nvidiaLabels",
    "pod-monitor": "components.podMonitor",
    "privileged-runtime": "components.privilegedRuntime",
    "prometheus-rule": "components.prometheusRule",
    "slice-audit": "components.sliceAudit",
    "slinky": "components.slinky",
    "switches": "switches.enabled",
    "switches-infiniband": "switches.infiniband",
    "unique-values": "components.uniqueValues",
    "ui": "ui.enabled",
    "vital-product-data": "components.vitalProductData",
}
"""Component to the value that switches it on."""
PLATFORMS = ("aks", "bottlerocket", "eks", "gke", "openshift")
"""Components of which the value `platform` names one."""
OPTIONS = (*SWITCHES, *PLATFORMS)
# Where two of these change the same object it is the DaemonSet; the others add objects and change none.
ON_THE_AGENT = (
    *("default-runtime", "dra-claim", "host-sysfs", "node-endpoint", "nvidia-labels", "privileged-runtime"),
    "slice-audit",
    "vital-product-data",
)
EVERYTHING_ON = [tuple(SWITCHES), *((*SWITCHES, platform) for platform in PLATFORMS)]
SETS = [(), *((option,) for option in OPTIONS), *itertools.combinations(ON_THE_AGENT, 2), *EVERYTHING_ON]
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kustomized(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """What kustomize renders of the base with some components."""

    @functools.cache
    def render(*components: str) -> str:
        folder = tmp_path_factory.mktemp("overlay").resolve()
        overlay = write_overlay(folder, components)
        return run_kubectl(kubectl, "kustomize", overlay).stdout

    return render


@pytest.fixture(scope="module")
def helm() -> Helm:
    path = find_helm()

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [path, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


@pytest.fixture(scope="module")
def template_of(helm: Helm, chart: Path) -> Helm:
    """What helm renders of the chart with some values."""

    def run(
        values: dict[str, Any], *, namespace: str = NAMESPACE, kubernetes: str = "1.30.0"
    ) -> subprocess.CompletedProcess[str]:
        return helm(
            "template",
            "toposcope",
            str(chart),
            "--namespace",
            namespace,
            "--kube-version",
            kubernetes,
            "-f",
            "-",
            stdin=json.dumps(values),
        )

    return run


def set_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Put a value into a place of the values; these."""
    *parents, last = path.split(".")
    place = values
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value
    return values


def switched_on(chosen: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option in chosen:
        if option in SWITCHES:
            set_value(values, SWITCHES[option], value=True)
        else:
            values["platform"] = option
    return values


def objects(text: str) -> dict[tuple[str, ...], Any]:
    """What both render, by kind, namespace and name: the Namespace is not Helm's to make, and a CRD is no template."""
    found: dict[tuple[str, ...], Any] = {}
    for document in yaml.load_all(text, yaml.CSafeLoader):
        if document is None or document["kind"] in {"Namespace", "CustomResourceDefinition"}:
            continue
        metadata = document["metadata"]
        name = (
            document["kind"],
            metadata.get("namespace", ""),
            metadata["name"],
        )
        found[name] = normalized(document)
    return found


def normalized(part: Any) -> Any:
    """Without what may differ: the order of named things and of tolerations, who manages it, blank lines in CEL."""
    if isinstance(part, dict):
        return normalized_dict(part)
    if isinstance(part, list):
        inner = [normalized(item) for item in part]
        for key in ("name", "key"):
            if all(isinstance(item, dict) and key in item for item in inner):
                return sorted(inner, key=lambda item: str(item[key]))
        return inner
    return part


def normalized_dict(part: dict[str, Any]) -> dict[str, Any]:
    result = {}
    for key, value in part.items():
        result[key] = normalized(value)
    if result.get(MANAGED_BY) == "Helm":
        result[MANAGED_BY] = "kustomize"
    if "expression" in result:  # two YAML libraries fold lines that are indented further in two ways
        result["expression"] = result["expression"].replace("\n\n", "\n")
    return result


def assert_quiet(done: subprocess.CompletedProcess[str]) -> None:
    """Helm is content and says nothing."""
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: "+".join(chosen) or "base")
def test_helm_renders_as_kustomize(template_of: Helm, kustomized: Callable[..., str], chosen: tuple[str, ...]) -> None:
    done = template_of(switched_on(chosen), kubernetes="1.36.0" if "binding-labels" in chosen else "1.30.0")
    assert_quiet(done)
    assert objects(done.stdout) == objects(kustomized(*chosen))


def test_helm_lints_it_strictly(helm: Helm, chart: Path) -> None:
    done = helm(
        "lint",
        str(chart),
        "--strict",
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.30.0",
    )
    assert done.returncode == 0, done.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


def test_pruning_is_a_hook_and_as_in_kustomize(template_of: Helm, kustomized: Callable[..., str], kubectl: str) -> None:
    done = template_of({"prune": {"onUninstall": True}})
    assert_quiet(done)
    found = objects(done.stdout)
    plain = objects(kustomized())
    weights = {}
    for name in found.keys() - plain.keys():
        hook = found[name]["metadata"].pop("annotations")
        assert hook.pop("helm.sh/hook") == "pre-delete"
        assert hook.pop("helm.sh/hook-delete-policy") == "before-hook-creation,hook-succeeded"
        weights[name[0]] = int(hook.pop("helm.sh/hook-weight"))
        assert hook == {}
    prune = run_kubectl(kubectl, "kustomize", MANIFESTS / "prune").stdout
    assert found == plain | objects(prune)
    assert weights.pop("Job") > max(weights.values())


TOLERATION = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
AFFINITY: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
TIME_ZONE = {"name": "TZ", "value": "UTC"}
POD_VALUES: dict[str, Any] = {
    "tolerations": [TOLERATION],
    "nodeSelector": {"pool": "gpu"},
    "affinity": AFFINITY,
    "priorityClassName": "ours",
    "resources": {"requests": {"cpu": "1"}},
    "podAnnotations": {"a.example.com/b": "c"},
    "podLabels": {"team": "ml", "app.kubernetes.io/name": "other"},
    "extraArgs": ["--log-format=json"],
    "env": [TIME_ZONE],
}
"""A value for each that a program's pods take from the chart."""
PROGRAMS = {"agent": "DaemonSet", "controller": "Deployment", "switches": "DaemonSet", "ui": "Deployment"}


def expect_pod_values(workload: dict[str, Any]) -> None:
    """Change a rendered workload as POD_VALUES and the image ask for; labels that select pods stay."""
    template = workload["spec"]["template"]
    template["metadata"]["annotations"]["a.example.com/b"] = "c"
    template["metadata"]["labels"]["team"] = "ml"

    pod = template["spec"]
    pod["imagePullSecrets"] = [{"name": "mine"}]
    pod["affinity"] = AFFINITY
    pod["priorityClassName"] = "ours"
    pod["tolerations"] = normalized([*pod.get("tolerations", []), TOLERATION])
    pod["nodeSelector"]["pool"] = "gpu"

    (container,) = pod["containers"]
    container["image"] = "registry.example.com/toposcope:1.2.3"
    container["imagePullPolicy"] = "Always"
    container["resources"]["requests"]["cpu"] = "1"
    container["args"].append("--log-format=json")
    container["env"] = normalized([*container.get("env", []), TIME_ZONE])


def test_values_change_what_they_say_and_nothing_else(template_of: Helm, kustomized: Callable[..., str]) -> None:
    controller_config = {"kind": "ControllerConfig"}
    done = template_of(
        {
            "image": {
                "repository": "registry.example.com/toposcope",
                "tag": "1.2.3",
                "pullPolicy": "Always",
                "pullSecrets": [{"name": "mine"}],
            },
            "agent": POD_VALUES,
            "controller": POD_VALUES | {"replicas": 3, "config": controller_config},
            "switches": POD_VALUES | {"enabled": True},
            "ui": POD_VALUES | {"enabled": True},
            "clusterTopology": {"spec": {"required": ["rack"]}},
            "monitoring": {"labels": {"release": "prometheus"}},
            "components": {"podMonitor": True, "prometheusRule": True},
        }
    )
    assert done.stderr == ""
    assert done.returncode == 0
    rendered = objects(done.stdout)
    config = rendered.pop(("ConfigMap", NAMESPACE, "toposcope-config"))
    assert yaml.load(config["data"]["config.yaml"], yaml.CSafeLoader) == controller_config

    expected = copy.deepcopy(objects(kustomized("ui", "switches", "pod-monitor", "prometheus-rule")))
    for program, kind in PROGRAMS.items():
        expect_pod_values(expected[kind, NAMESPACE, f"toposcope-{program}"])
    controller = expected["Deployment", NAMESPACE, "toposcope-controller"]
    controller["spec"]["replicas"] = 3
    topology = expected["ClusterTopology", "", "cluster"]
    topology["spec"] = {"required": ["rack"]}
    for document in expected.values():
        if document["kind"] in {"PodMonitor", "PrometheusRule"}:
            labels = document["metadata"]["labels"]
            labels["release"] = "prometheus"
    assert rendered == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param("components.nvidialabels", True, id="unknown-component"),
        pytest.param("components.hostSysfs", "yes", id="component-as-text"),
        pytest.param("components.gke", True, id="platform-as-component"),
        pytest.param("platform", "azure", id="unknown-platform"),
        pytest.param("prune.onUninstall", "yes", id="prune-as-text"),
        pytest.param("controller.replicas", 0, id="no-replicas"),
        pytest.param("agent.nodeSelector.pool", True, id="label-that-is-no-text"),
        pytest.param("image.pullPolicy", "always", id="unknown-pull-policy"),
        pytest.param("controller.extraArgs", "--once", id="arguments-as-text"),
    ],
)
def test_wrong_value_is_refused_by_its_name(template_of: Helm, path: str, value: object) -> None:
    done = template_of(set_value({}, path, value))
    assert done.returncode != 0
    _, _, name = path.rpartition(".")
    assert name in done.stderr


def test_binding_labels_are_refused_on_an_older_kubernetes(template_of: Helm) -> None:
    done = template_of({"components": {"bindingLabels": True}}, kubernetes="1.35.4")
    assert done.returncode != 0
    assert "components.bindingLabels needs Kubernetes 1.36 (MutatingAdmissionPolicy v1)" in done.stderr
    assert "this is v1.35.4; set it to false" in done.stderr


def test_wrong_operator_of_a_toleration_is_refused(template_of: Helm) -> None:
    toleration = {"operator": "exists"}
    done = template_of({"agent": {"tolerations": [toleration]}})
    assert done.returncode != 0
    assert "operator" in done.stderr


@pytest.mark.regression
def test_any_namespace_will_do_but_default(template_of: Helm, kustomized: Callable[..., str]) -> None:
    chosen = EVERYTHING_ON[-1]
    moved = kustomized(*chosen).replace(NAMESPACE, "gpu-fleet")
    done = template_of(switched_on(chosen), namespace="gpu-fleet", kubernetes="1.36.0")
    assert objects(done.stdout) == objects(moved)

    done = template_of({}, namespace="default")
    assert done.returncode != 0
    assert f"add --namespace {NAMESPACE}" in done.stderr


def test_versions_and_the_crd_are_the_projects_own(chart: Path) -> None:
    text = (chart / "Chart.yaml").read_text(encoding="utf-8")
    about = yaml.load(text, yaml.CSafeLoader)
    assert about["version"] == __version__
    assert about["appVersion"] == __version__
    (crd,) = (chart / "crds").iterdir()
    ours = MANIFESTS / "crds" / "gpu.topology_clustertopologies.yaml"
    assert crd.name == ours.name
    assert crd.read_text() == ours.read_text()


def test_every_option_is_a_value_that_is_off_and_in_the_schema() -> None:
    values = yaml.load((CHART / "values.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    off: dict[str, Any] = {}
    for path in SWITCHES.values():
        set_value(off, path, value=False)
    assert values["components"] == off["components"]
    assert values["platform"] == ""
    assert values["prune"] == {"onUninstall": False}
    platform = schema["properties"]["platform"]
    assert platform["enum"] == ["", *PLATFORMS]

    known = fields(schema)
    known.pop("global")  # Helm's own
    expected: dict[str, dict[str, Any]] = {}
    for part, inner in values.items():
        names = inner if isinstance(inner, dict) else ()
        expected[part] = {name: {} for name in names}
    assert known == expected


def fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The names of a schema's fields, each with those inside of it."""
    names = {}
    for name, inner in schema.get("properties", {}).items():
        names[name] = fields(inner)
    return names


def test_every_component_that_an_admin_names_is_a_value() -> None:
    components = MANIFESTS / "components"
    folders = {path.parent.name for path in components.glob("*/kustomization.yaml")}
    folders.remove("admission-policy")
    folders.remove("pod-security-privileged")
    assert set(OPTIONS) == folders
