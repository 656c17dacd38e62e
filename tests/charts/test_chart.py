"""The Helm chart says what kustomize says, whatever components are chosen."""

import copy
import functools
import itertools
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.__main__ import FILES, MANIFESTS, rendered, write
from charts.templates import OPTIONS, objects, template, woven
from charts.weave import Piece, chosen_text, weave
from tests.manifests.support import run_kubectl
from tests.support.api import ApiUnderTest
from topology.version import __version__

HOME = "toposcope-system"
APPS = f"/apis/apps/v1/namespaces/{HOME}"
INSTALLED = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/gpu.topology/v1alpha1/clustertopologies",
    f"{APPS}/daemonsets",
    f"{APPS}/deployments",
)
SETS = [chosen for size in range(len(OPTIONS) + 1) for chosen in itertools.combinations(OPTIONS, size)]
TRIED_WITH_HELM = [(), *((option,) for option in OPTIONS), tuple(OPTIONS)]


@pytest.fixture(scope="module", autouse=True)
def _kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH; it renders the kustomize base")


@functools.cache
def kustomized(*components: str) -> str:
    return rendered(*components)


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / "toposcope"
    write(folder)
    return folder


@pytest.fixture(scope="module")
def helm(chart: Path) -> Any:
    path = shutil.which("helm")
    if path is None:
        pytest.skip("helm is not on PATH")

    def run(values: dict[str, Any], *, namespace: str = HOME) -> subprocess.CompletedProcess[str]:
        command = [path, "template", "toposcope", str(chart), "--namespace", namespace, "--kube-version", "1.30.0"]
        text = json.dumps(values)
        return subprocess.run(
            [*command, "-f", "-"], input=text, capture_output=True, text=True, check=False, timeout=60
        )

    return run


def set_value(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    *parents, last = path.split(".")
    functools.reduce(lambda inner, name: inner.setdefault(name, {}), parents, values)[last] = value
    return values


def switched_on(chosen: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for option in chosen:
        set_value(values, OPTIONS[option], value=True)
    return values


def by_name(text: str) -> dict[tuple[str, ...], dict[str, Any]]:
    found = [o for o in yaml.safe_load_all(text) if o and o["kind"] not in {"Namespace", "CustomResourceDefinition"}]
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in found}


def managed_by_kustomize(o: Any) -> Any:
    """The object with the one label in which both differ as kustomize has it."""
    if isinstance(o, dict):
        return {
            key: "kustomize"
            if (key, value) == ("app.kubernetes.io/managed-by", "Helm")
            else managed_by_kustomize(value)
            for key, value in o.items()
        }
    return [managed_by_kustomize(each) for each in o] if isinstance(o, list) else o


@pytest.mark.parametrize("chosen", SETS, ids=lambda chosen: "+".join(chosen) or "base")
def test_every_set_of_components_comes_out_as_kustomize_renders_it(chosen: tuple[str, ...]) -> None:
    files = woven(kustomized(), {option: kustomized(option) for option in OPTIONS})
    texts = {name: chosen_text(pieces, chosen).splitlines() for name, pieces in files.items()}
    assert {name: lines for name, lines in texts.items() if lines} == objects(kustomized(*chosen))


@pytest.mark.parametrize("chosen", TRIED_WITH_HELM, ids=lambda chosen: "+".join(chosen) or "base")
def test_helm_renders_what_kustomize_renders(helm: Any, chosen: tuple[str, ...]) -> None:
    done = helm(switched_on(chosen))
    assert (done.returncode, done.stderr) == (0, "")
    assert managed_by_kustomize(by_name(done.stdout)) == by_name(kustomized(*chosen))


def test_values_change_what_they_say_and_nothing_else(helm: Any) -> None:
    toleration = {"key": "team", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    values = {
        "image": {"repository": "registry.example.com/toposcope", "tag": "1.2.3", "pullSecrets": [{"name": "mine"}]},
        "agent": {"tolerations": [toleration]},
        "controller": {"replicas": 3},
    }
    wanted = copy.deepcopy(by_name(kustomized()))
    agent = wanted["DaemonSet", HOME, "toposcope-agent"]["spec"]
    controller = wanted["Deployment", HOME, "toposcope-controller"]["spec"]
    controller["replicas"] = 3
    for spec in (agent["template"]["spec"], controller["template"]["spec"]):
        spec["imagePullSecrets"] = [{"name": "mine"}]
        spec["containers"][0]["image"] = "registry.example.com/toposcope:1.2.3"
    agent["template"]["spec"]["tolerations"].append(toleration)
    done = helm(values)
    assert (done.returncode, done.stderr) == (0, "")
    # Helm puts the added toleration first; their order means nothing.
    found = managed_by_kustomize(by_name(done.stdout))
    for each in (found, wanted):
        each["DaemonSet", HOME, "toposcope-agent"]["spec"]["template"]["spec"]["tolerations"].sort(
            key=lambda each: each["key"]
        )
    assert found == wanted


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"components": {"nvidialabels": True}}, "nvidialabels"),
        ({"components": {"hostSysfs": "yes"}}, "hostSysfs"),
        ({"controller": {"replicas": 0}}, "replicas"),
        ({"agent": {"tolerations": [{"operator": "exists"}]}}, "operator"),
    ],
)
def test_wrong_values_are_refused_by_name(helm: Any, values: dict[str, Any], says: str) -> None:
    done = helm(values)
    assert done.returncode != 0
    assert says in done.stderr


def test_another_namespace_is_refused_with_the_fix(helm: Any) -> None:
    done = helm({}, namespace="default")
    assert done.returncode != 0
    assert f"add --namespace {HOME}" in done.stderr


@pytest.mark.real_api("what Helm installs is checked as everything is")
def test_a_release_comes_changes_and_goes(api: ApiUnderTest, chart: Path) -> None:
    path = shutil.which("helm")
    if path is None:
        pytest.skip("helm is not on PATH")

    def run(*arguments: str) -> None:
        command = [path, *arguments, "--namespace", HOME, "--kubeconfig", str(api.kubeconfig)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr

    def names() -> set[str]:
        return {o["metadata"]["name"] for path in INSTALLED for o in api.get(path)["items"]}

    run_kubectl("kubectl", "--kubeconfig", api.kubeconfig, "apply", "-f", MANIFESTS / "base" / "namespace.yaml")
    crd = yaml.safe_load(next((chart / "crds").iterdir()).read_text(encoding="utf-8"))
    api.install_crd(crd)  # as an admin upgrades it: Helm itself leaves one that is there alone
    before = names()
    run("install", "toposcope", str(chart))
    came = {"toposcope-agent", "toposcope-controller", "cluster", "toposcope-agent.gpu.topology"}
    assert came <= names() - before
    run("upgrade", "toposcope", str(chart), "--set", "components.nvidiaLabels=true")
    (agent,) = api.get(f"{APPS}/daemonsets")["items"]
    assert "--nvidia-labels" in agent["spec"]["template"]["spec"]["containers"][0]["args"]
    run("uninstall", "toposcope")
    assert names() == before


def test_versions_and_the_crd_are_the_projects_own(chart: Path) -> None:
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    name = "gpu.topology_clustertopologies.yaml"
    assert [path.name for path in (chart / "crds").iterdir()] == [name]
    assert (chart / "crds" / name).read_text() == (MANIFESTS / "crds" / name).read_text()


def test_every_option_is_a_value_that_is_off_and_in_the_schema() -> None:
    values = yaml.safe_load((FILES / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((FILES / "values.schema.json").read_text(encoding="utf-8"))
    off: dict[str, Any] = {}
    for path in OPTIONS.values():
        set_value(off, path, value=False)
    assert values["components"] == off["components"]

    def fields(part: dict[str, Any]) -> Any:
        return {name: fields(inner) for name, inner in part.get("properties", {}).items()}

    known = fields(schema)
    known.pop("global")  # Helm's own
    assert known == {part: {name: {} for name in inner} for part, inner in values.items()}


def test_a_line_that_helm_would_read_is_refused() -> None:
    with pytest.raises(ValueError, match="which Helm reads"):
        template([Piece(("a: '{{ b }}'",))])


def test_options_that_change_the_same_line_show() -> None:
    pieces = weave(["a: 1"], {"x": ["a: 2"], "y": ["a: 3"]})
    assert [chosen_text(pieces, chosen) for chosen in ((), ("x",), ("y",))] == ["a: 1\n", "a: 2\n", "a: 3\n"]
    assert chosen_text(pieces, ("x", "y")) == "a: 2\na: 3\n"
