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
from tests.support.tables import each_case, named_objects
from toposcope import __version__

NAMESPACE = "toposcope-system"
MANAGED_BY = "app.kubernetes.io/managed-by"
CHART = MANIFESTS / "chart"
SWITCHES: dict[str, str] = named_objects("chart_switches.yaml")
"""Component to the value that switches it on."""
PLATFORMS = ("aks", "bottlerocket", "eks", "gke", "openshift")
"""Components of which the value `platform` names one."""
OPTIONS = (*SWITCHES, *PLATFORMS)
# Where two of these change the same object it is the DaemonSet; the others add objects and change none.
ON_THE_AGENT = (
    *("default-runtime", "dra-claim", "host-sysfs", "nvidia-labels", "privileged-runtime", "slice-audit"),
    "vital-product-data",
)
EVERYTHING_ON = [(*SWITCHES, *platform) for platform in ((), *((platform,) for platform in PLATFORMS))]
SETS = [(), *((option,) for option in OPTIONS), *itertools.combinations(ON_THE_AGENT, 2), *EVERYTHING_ON]
Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def kustomized(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """What kustomize renders of the base with some components."""

    @functools.cache
    def render(*components: str) -> str:
        overlay = write_overlay(tmp_path_factory.mktemp("overlay").resolve(), components)
        return run_kubectl(kubectl, "kustomize", overlay).stdout

    return render


@pytest.fixture(scope="module")
def helm() -> Helm:
    path = find_helm()

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [path, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)

    return run


@pytest.fixture(scope="module")
def template_of(helm: Helm, chart: Path) -> Helm:
    """What helm renders of the chart with some values."""

    def run(values: dict[str, Any], *, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
        flags = ["--namespace", namespace, "--kube-version", "1.30.0", "-f", "-"]
        return helm("template", "toposcope", str(chart), *flags, stdin=json.dumps(values))

    return run


def set_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parents, last = path.split(".")
    functools.reduce(lambda inner, name: inner.setdefault(name, {}), parents, values)[last] = value
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
    rendered = [o for o in yaml.load_all(text, yaml.CSafeLoader) if o is not None]
    return {
        (o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): normalized(o)
        for o in rendered
        if o["kind"] not in {"Namespace", "CustomResourceDefinition"}
    }


def normalized(part: Any) -> Any:
    """Without what may differ: the order of named things and of tolerations, who manages it, blank lines in CEL."""
    if isinstance(part, dict):
        part = {key: normalized(value) for key, value in part.items()}
        if part.get(MANAGED_BY) == "Helm":
            part[MANAGED_BY] = "kustomize"
        if "expression" in part:  # two YAML libraries fold lines that are indented further in two ways
            part["expression"] = part["expression"].replace("\n\n", "\n")
        return part
    if isinstance(part, list):
        inner = [normalized(item) for item in part]
        for key in ("name", "key"):
            if all(isinstance(item, dict) and key in item for item in inner):
                return sorted(inner, key=lambda item: str(item[key]))
        return inner
    return part


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: "+".join(chosen) or "base")
def test_helm_renders_as_kustomize(template_of: Helm, kustomized: Callable[..., str], chosen: tuple[str, ...]) -> None:
    done = template_of(switched_on(chosen))
    assert (done.returncode, done.stderr) == (0, "")
    assert objects(done.stdout) == objects(kustomized(*chosen))


def test_helm_lints_it_strictly(helm: Helm, chart: Path) -> None:
    done = helm("lint", str(chart), "--strict", "--namespace", NAMESPACE, "--kube-version", "1.30.0")
    assert (done.returncode, "1 chart(s) linted, 0 chart(s) failed" in done.stdout) == (0, True), done.stdout


def test_pruning_is_a_hook_and_as_in_kustomize(template_of: Helm, kustomized: Callable[..., str], kubectl: str) -> None:
    done = template_of({"prune": {"onUninstall": True}})
    assert (done.returncode, done.stderr) == (0, "")
    found, plain = objects(done.stdout), objects(kustomized())
    weights = {}
    for name in found.keys() - plain.keys():
        hook = found[name]["metadata"].pop("annotations")
        assert hook.pop("helm.sh/hook") == "pre-delete"
        assert hook.pop("helm.sh/hook-delete-policy") == "before-hook-creation,hook-succeeded"
        weights[name[0]] = int(hook.pop("helm.sh/hook-weight"))
        assert hook == {}
    assert found == plain | objects(run_kubectl(kubectl, "kustomize", MANIFESTS / "prune").stdout)
    assert weights.pop("Job") > max(weights.values())


POD = named_objects("chart_values.yaml")["pod"]
TOLERATION, AFFINITY = POD["tolerations"][0], POD["affinity"]


def test_values_change_what_they_say_and_nothing_else(template_of: Helm, kustomized: Callable[..., str]) -> None:
    image = {"repository": "registry.example.com/toposcope", "tag": "1.2.3", "pullPolicy": "Always"}
    programs = {"agent": "DaemonSet", "controller": "Deployment", "switches": "DaemonSet", "ui": "Deployment"}
    values: dict[str, Any] = {"image": {**image, "pullSecrets": [{"name": "mine"}]}}
    values |= {name: dict(POD) for name in programs}
    values["controller"] |= {"replicas": 3, "config": {"kind": "ControllerConfig"}}
    values["ui"]["enabled"] = values["switches"]["enabled"] = True
    values["clusterTopology"] = {"spec": {"required": ["rack"]}}
    values["monitoring"] = {"labels": {"release": "prometheus"}}
    values["components"] = {"podMonitor": True, "prometheusRule": True}
    wanted = copy.deepcopy(objects(kustomized("ui", "switches", "pod-monitor", "prometheus-rule")))
    for program, kind in programs.items():
        workload = wanted[kind, NAMESPACE, f"toposcope-{program}"]["spec"]
        template, pod = workload["template"], workload["template"]["spec"]
        (container,) = pod["containers"]
        pod |= {"imagePullSecrets": [{"name": "mine"}], "affinity": AFFINITY, "priorityClassName": "ours"}
        pod["tolerations"] = normalized([*pod.get("tolerations", []), TOLERATION])
        pod["nodeSelector"] |= POD["nodeSelector"]
        template["metadata"]["annotations"] |= POD["podAnnotations"]
        template["metadata"]["labels"]["team"] = "ml"
        container |= {"image": "registry.example.com/toposcope:1.2.3", "imagePullPolicy": "Always"}
        container["resources"]["requests"]["cpu"] = "1"
        container["args"] = [*container["args"], "--log-format=json"]
        container["env"] = normalized([*container.get("env", []), *POD["env"]])
    wanted["Deployment", NAMESPACE, "toposcope-controller"]["spec"]["replicas"] = 3
    wanted["ClusterTopology", "", "cluster"]["spec"] = {"required": ["rack"]}
    for key, monitor in wanted.items():
        if key[0] in {"PodMonitor", "PrometheusRule"}:
            monitor["metadata"]["labels"]["release"] = "prometheus"
    done = template_of(values)
    assert (done.returncode, done.stderr) == (0, "")
    found = objects(done.stdout)
    config = found.pop(("ConfigMap", NAMESPACE, "toposcope-config"))
    assert yaml.safe_load(config["data"]["config.yaml"]) == values["controller"]["config"]
    assert found == wanted


@each_case("chart.yaml")
def test_wrong_values_are_refused_objects(template_of: Helm, values: dict[str, Any], says: str) -> None:
    done = template_of(values)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.regression
def test_any_namespace_will_do_but_one_that_nobody_chose(template_of: Helm, kustomized: Callable[..., str]) -> None:
    everything = switched_on(EVERYTHING_ON[-1])
    moved = kustomized(*EVERYTHING_ON[-1]).replace(NAMESPACE, "gpu-fleet")
    assert objects(template_of(everything, namespace="gpu-fleet").stdout) == objects(moved)
    done = template_of({}, namespace="default")
    assert done.returncode != 0
    assert f"add --namespace {NAMESPACE}" in done.stderr


def test_versions_and_the_crd_are_the_projects_own(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    name = "gpu.topology_clustertopologies.yaml"
    assert [path.name for path in (chart / "crds").iterdir()] == [name]
    assert (chart / "crds" / name).read_text() == (MANIFESTS / "crds" / name).read_text()


def test_every_option_is_a_value_that_is_off_and_in_the_schema() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    off: dict[str, Any] = {}
    for path in SWITCHES.values():
        set_value(off, path, value=False)
    assert values["components"] == off["components"]
    assert (values["platform"], values["prune"]) == ("", {"onUninstall": False})
    assert schema["properties"]["platform"]["enum"] == ["", *PLATFORMS]

    def fields(part: dict[str, Any]) -> Any:
        return {name: fields(inner) for name, inner in part.get("properties", {}).items()}

    known = fields(schema)
    known.pop("global")  # Helm's own
    assert known == {
        part: {name: {} for name in inner} if isinstance(inner, dict) else {} for part, inner in values.items()
    }


def test_every_component_that_an_admin_names_is_a_value() -> None:
    included = {"admission-policy", "pod-security-privileged"}
    folders = {path.parent.name for path in (MANIFESTS / "components").glob("*/kustomization.yaml")}
    assert set(OPTIONS) == folders - included
