"""The Helm chart says what kustomize says, whatever components are chosen."""

import copy
import functools
import itertools
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.helm import find_helm
from tools.chart.__main__ import FILES, MANIFESTS, kustomize, rendered, write
from tools.chart.templates import OPTIONS, PLATFORMS, SWITCHES, objects, pruning, template, woven
from tools.chart.weave import Piece, chosen_text, weave
from toposcope import __version__

HOME = "toposcope-system"
Helm = Callable[..., subprocess.CompletedProcess[str]]
# What two of these change lies in the DaemonSet; the others add objects and change none.
ON_THE_AGENT = ("default-runtime", "host-sysfs", "nvidia-labels", "privileged-runtime")
EVERYTHING_ON = [(*SWITCHES, *platform) for platform in ((), *((each,) for each in PLATFORMS))]
SETS = [(), *((option,) for option in OPTIONS), *itertools.combinations(ON_THE_AGENT, 2), *EVERYTHING_ON]
TRIED_WITH_HELM = [(), *((option,) for option in OPTIONS), *EVERYTHING_ON[1:]]


@pytest.fixture(scope="module", autouse=True)
def _kubectl() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH; it renders the kustomize base")


@functools.cache
def kustomized(*components: str) -> str:
    return rendered(*components)


@functools.cache
def woven_files() -> dict[str, list[Piece]]:
    return woven(kustomized(), {option: kustomized(option) for option in OPTIONS})


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / "toposcope"
    write(folder)
    return folder


@pytest.fixture(scope="module")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    path = find_helm()

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [path, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)

    return run


@pytest.fixture(scope="module")
def template_of(helm: Helm, chart: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What helm makes of the chart with some values."""

    def run(values: dict[str, Any], *, namespace: str = HOME) -> subprocess.CompletedProcess[str]:
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


def by_name(text: str) -> dict[tuple[str, ...], dict[str, Any]]:
    loaded = yaml.load_all(text, yaml.CSafeLoader)
    found = [o for o in loaded if o and o["kind"] not in {"Namespace", "CustomResourceDefinition"}]
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in found}


def in_order(o: Any) -> Any:
    """The object with lists of named things sorted, whose order means nothing."""
    if isinstance(o, dict):
        return {key: in_order(value) for key, value in o.items()}
    if isinstance(o, list):
        inner = [in_order(each) for each in o]
        named = all(isinstance(each, dict) and "name" in each for each in inner)
        return sorted(inner, key=lambda each: each["name"]) if named else inner
    return o


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
def test_sets_of_components_come_out_as_kustomize_renders_them(chosen: tuple[str, ...]) -> None:
    texts = [chosen_text(pieces, chosen) for pieces in woven_files().values()]
    woven_objects = by_name("---\n".join(text for text in texts if text))
    assert in_order(woven_objects) == in_order(by_name(kustomized(*chosen)))


@pytest.mark.parametrize("option", OPTIONS)
def test_one_component_comes_out_to_the_letter(option: str) -> None:
    texts = {name: chosen_text(pieces, {option}).splitlines() for name, pieces in woven_files().items()}
    assert {name: lines for name, lines in texts.items() if lines} == objects(kustomized(option))


@pytest.mark.parametrize("chosen", TRIED_WITH_HELM, ids=lambda chosen: "+".join(chosen) or "base")
def test_helm_renders_what_kustomize_renders(template_of: Helm, chosen: tuple[str, ...]) -> None:
    done = template_of(switched_on(chosen))
    assert (done.returncode, done.stderr) == (0, "")
    assert in_order(managed_by_kustomize(by_name(done.stdout))) == in_order(by_name(kustomized(*chosen)))


def test_helm_lints_it_strictly(helm: Helm, chart: Path) -> None:
    done = helm("lint", str(chart), "--strict", "--namespace", HOME, "--kube-version", "1.30.0")
    assert (done.returncode, "1 chart(s) linted, 0 chart(s) failed" in done.stdout) == (0, True), done.stdout


def test_pruning_is_a_hook_that_says_what_kustomize_says(template_of: Helm) -> None:
    done = template_of({"prune": {"onUninstall": True}})
    assert (done.returncode, done.stderr) == (0, "")
    found, plain = managed_by_kustomize(by_name(done.stdout)), by_name(kustomized())
    weights = {}
    for name in found.keys() - plain.keys():
        hook = found[name]["metadata"].pop("annotations")
        assert hook.pop("helm.sh/hook") == "pre-delete"
        assert hook.pop("helm.sh/hook-delete-policy") == "before-hook-creation,hook-succeeded"
        weights[name[0]] = int(hook.pop("helm.sh/hook-weight"))
        assert hook == {}
    assert found == plain | by_name(kustomize(MANIFESTS / "prune"))
    assert weights.pop("Job") > max(weights.values())


def test_values_change_what_they_say_and_nothing_else(template_of: Helm) -> None:
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
    done = template_of(values)
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
        ({"components": {"gke": True}}, "gke"),
        ({"platform": "azure"}, "platform"),
        ({"prune": {"onUninstall": "yes"}}, "onUninstall"),
        ({"controller": {"replicas": 0}}, "replicas"),
        ({"agent": {"tolerations": [{"operator": "exists"}]}}, "operator"),
    ],
)
def test_wrong_values_are_refused_by_name(template_of: Helm, values: dict[str, Any], says: str) -> None:
    done = template_of(values)
    assert done.returncode != 0
    assert says in done.stderr


def test_another_namespace_is_refused_with_the_fix(template_of: Helm) -> None:
    done = template_of({}, namespace="default")
    assert done.returncode != 0
    assert f"add --namespace {HOME}" in done.stderr


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


def test_braces_of_others_are_none_of_helms() -> None:
    assert template([Piece(("a: '{{ b }}'",))]) == """a: '{{ "{{" }} b {{ "}}" }}'\n"""


def test_an_object_with_annotations_is_no_hook_yet() -> None:
    with pytest.raises(ValueError, match=r"job-a\.yaml has annotations"):
        pruning("kind: Job\nmetadata:\n  annotations:\n    a: b\n  name: a\n")


def test_options_that_change_the_same_line_show() -> None:
    pieces = weave(["a: 1"], {"x": ["a: 2"], "y": ["a: 3"]})
    assert [chosen_text(pieces, chosen) for chosen in ((), ("x",), ("y",))] == ["a: 1\n", "a: 2\n", "a: 3\n"]
    assert chosen_text(pieces, ("x", "y")) == "a: 2\na: 3\n"


def test_options_that_begin_the_same_list_share_its_head() -> None:
    pieces = weave(["a: 1"], {"x": ["a: 1", "b:", "- x"], "y": ["a: 1", "b:", "- y"], "z": ["a: 1", "b:", "- x"]})
    texts = [chosen_text(pieces, chosen) for chosen in ((), ("y",), ("x", "y"), ("x", "z"))]
    assert texts == ["a: 1\n", "a: 1\nb:\n- y\n", "a: 1\nb:\n- x\n- y\n", "a: 1\nb:\n- x\n"]


def test_items_of_a_list_are_shared_whole_or_not_at_all() -> None:
    pieces = weave(["a:"], {"x": ["a:", "- p: 1", "  q: x"], "y": ["a:", "- p: 1", "  q: y"]})
    assert chosen_text(pieces, ("x", "y")) == "a:\n- p: 1\n  q: x\n- p: 1\n  q: y\n"
