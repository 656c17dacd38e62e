"""The kustomize components: each builds, alone and with all others, changes what it says, and is admitted."""

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest
import yaml
from tests.manifests import rights
from tests.manifests.support import COMPONENTS, NAMESPACE, Manifests, built, run_kubectl, write_overlay
from tests.support.api import ApiUnderTest, pod_token, wait_until
from tests.support.paths import FIXTURES
from tests.support.tables import at, each_case
from toposcope import __version__
from toposcope.agent.nvidia_labels import KEYS
from toposcope.api.yaml_text import load

NAMES = sorted(folder.parent.name for folder in COMPONENTS.glob("*/kustomization.yaml"))
# The base includes the first, other components the second: an admin names neither.
INCLUDED = ("admission-policy", "pod-security-privileged")
OPTIONS = tuple(name for name in NAMES if name not in INCLUDED)
UNCONFINED = ("bottlerocket", "gke", "host-sysfs", "privileged-runtime", "switches", "vital-product-data")
# Their kinds are the Prometheus operator's: tests/monitoring/test_operator.py puts them before its CRDs.
OPERATED = ("pod-monitor", "prometheus-rule")
ADMITTED = tuple(name for name in OPTIONS if name not in OPERATED)

Render = Callable[..., Manifests]


@pytest.fixture(scope="module")
def render(kubectl: str, tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Builds the base with some components, each set once."""

    @functools.cache
    def rendered(*components: str) -> Manifests:
        return built(kubectl, write_overlay(tmp_path_factory.mktemp("overlay").resolve(), components))

    return rendered


def by_name(manifests: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(o["kind"], o["metadata"]["name"]): o for o in manifests}


def changed(base: Manifests, other: Manifests) -> set[tuple[str, str]]:
    before, after = by_name(base), by_name(other)
    assert before.keys() <= after.keys()
    return {name for name, o in after.items() if before.get(name) != o}


def container(manifests: Manifests) -> dict[str, Any]:
    (only,) = manifests.pod_template("agent")["spec"]["containers"]
    return only


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


TOUCHED = {
    name: {(kind, named) for kind, names in kinds.items() for named in names}
    for name, kinds in load((FIXTURES / "components.yaml").read_bytes()).items()
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_component_touches_what_it_says(base: Manifests, render: Render, name: str) -> None:
    assert changed(base, render(name)) == TOUCHED[name]


def test_the_default_runtime_needs_no_class(base: Manifests, render: Render) -> None:
    wanted = copy.deepcopy(base.pod_template("agent"))
    del wanted["spec"]["runtimeClassName"]
    assert render("default-runtime").pod_template("agent") == wanted


class Says(msgspec.Struct, forbid_unknown_fields=True):
    """What an object of the base, the prune Job or a component has at some places; null: nothing."""

    of: str
    object: str
    says: dict[str, Any]


SAYS = msgspec.convert(
    load((FIXTURES / "manifests.yaml").read_bytes().replace(b"VERSION", __version__.encode())), list[Says]
)


@pytest.mark.regression
@pytest.mark.parametrize("row", SAYS, ids=lambda row: f"{row.of}: {row.object}")
def test_what_an_object_says(base: Manifests, prune: Manifests, render: Render, row: Says) -> None:
    manifests = {"base": base, "prune": prune}.get(row.of) or render(*row.of.split("+"))
    found = manifests.get(*row.object.split("/"))
    assert {place: at(found, place) for place in row.says} == row.says


def test_gpu_nodes_are_tolerated_and_found_on_bottlerocket_as_on_eks(base: Manifests, render: Render) -> None:
    gpus = {"key": "nvidia.com/gpu", "operator": "Exists"}
    assert [gpus] == [
        toleration
        for toleration in base.pod_template("agent")["spec"]["tolerations"]
        if toleration.items() >= gpus.items()
    ]
    assert terms(render("bottlerocket")) == terms(render("eks"))


def terms(manifests: Manifests) -> list[dict[str, Any]]:
    """What makes a node one of the agent's; each of them is enough."""
    affinity = manifests.pod_template("agent")["spec"]["affinity"]["nodeAffinity"]
    return affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


@each_case("tables/manifests.yaml")
def test_a_platforms_labels_find_its_gpu_nodes(base: Manifests, render: Render, platform: str, keys: list[str]) -> None:
    found = render(platform)
    more = [{"key": key, "operator": "In", "values": ["nvidia"]} for key in keys]
    assert terms(found) == [*terms(base), *({"matchExpressions": [term]} for term in more)]
    assert "runtimeClassName" not in found.pod_template("agent")["spec"]


def test_on_openshift_every_program_may_run_as_its_user(base: Manifests, prune: Manifests, render: Render) -> None:
    binding = render("openshift").get("RoleBinding", "toposcope-nonroot-v2")
    accounts = {o["metadata"]["name"] for objects in (base, prune) for o in objects if o["kind"] == "ServiceAccount"}
    assert {(s["namespace"], s["name"]) for s in binding["subjects"]} == {("toposcope-system", a) for a in accounts}


def test_the_labels_that_the_agent_may_write_are_those_that_it_writes(render: Render) -> None:
    found = render("nvidia-labels")
    assert container(found)["args"][-1] == "--nvidia-labels"
    (more,) = (v["expression"] for v in policy(found)["spec"]["variables"] if v["name"] == "moreLabels")
    assert set(yaml.safe_load(more)) == KEYS


@pytest.mark.parametrize("order", [OPTIONS, OPTIONS[::-1]])
def test_all_together_build_in_any_order(render: Render, order: tuple[str, ...]) -> None:
    found = render(*order)
    assert changed(render(), found) == set().union(*TOUCHED.values())
    assert set(container(found)["args"]) >= {"--nvidia-labels", "--sysfs=/host/sys"}


def admits(api: ApiUnderTest, found: Manifests, program: str) -> str:
    """Why a pod of the program is refused; nothing when it is admitted."""
    account = {"serviceAccountName": "toposcope-agent"}  # one that is there
    code, answer = api.request("POST", f"{NAMESPACE}/pods?dryRun=All", found.pod(program, "tried", **account))
    return "" if code == 201 else answer["message"]


@pytest.mark.slow
@pytest.mark.parametrize("components", [*((name,) for name in ADMITTED if TOUCHED[name]), ADMITTED], ids="+".join)
def test_a_real_api_server_takes_it_and_admits_the_pods(
    installed_once: ApiUnderTest, kubectl: str, render: Render, base: Manifests, components: tuple[str, ...]
) -> None:
    api, found = installed_once, render(*components)
    programs = ["agent", "controller", *(["switches"] if "switches" in components else [])]
    strange = "switches" if components == ("switches",) else "agent"

    def enforce(manifests: Manifests, *, refused: bool) -> None:
        """Admission watches namespaces: right after the write it may still judge by the old labels."""
        labels = manifests.get("Namespace", "toposcope-system")["metadata"]["labels"]
        api.patch(NAMESPACE, {"metadata": {"labels": labels}})
        wait_until(lambda: ("violates PodSecurity" in admits(api, found, strange)) == refused, f"refused is {refused}")

    enforce(base, refused=not set(components).isdisjoint(UNCONFINED))
    enforce(found, refused=False)
    assert [admits(api, found, program) for program in programs] == [""] * len(programs)
    changes = yaml.safe_dump_all([by_name(found)[name] for name in changed(base, found)])
    flags = ("--kubeconfig", api.kubeconfig, "apply", "--server-side", "--dry-run=server", "-f", "-")
    assert run_kubectl(kubectl, *flags, stdin=changes).stderr == ""


@pytest.mark.regression
@pytest.mark.parametrize("component", ["nvidia-labels", "slinky", "unique-values"])
def test_with_a_component_a_program_may_write_what_it_says_and_nothing_else_of_a_node(
    installed_once: ApiUnderTest, kubectl: str, render: Render, base: Manifests, component: str
) -> None:
    api, found, before = installed_once, render(component), by_name(base)
    attempts = functools.partial(rights.attempts, "components")
    for there in attempts(f"{component}: there"):
        api.create(there.path, there.body)
    plan = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "toposcope-node-plan"}}
    assert api.request("POST", f"{NAMESPACE}/configmaps", plan)[0] in {201, 409}
    where = {"nvidia-labels": "confined-own", "slinky": "annotated", "unique-values": "labelled"}[component]
    token = pod_token(api, api.create(f"{NAMESPACE}/pods", base.pod("agent", f"on-{where}", nodeName=where)))

    def tell(verb: str, names: Iterable[tuple[str, str]], among: dict[tuple[str, str], dict[str, Any]]) -> None:
        if objects := [among[name] for name in names]:
            flags = ("--server-side",) if verb == "apply" else ()
            stdin = yaml.safe_dump_all(objects)
            run_kubectl(kubectl, "--kubeconfig", api.kubeconfig, verb, *flags, "-f", "-", stdin=stdin)

    rights.wait_for(api, attempts(f"{component}: without"), token)
    tell("apply", changes := changed(base, found), by_name(found))
    try:
        rights.wait_for(api, attempts(f"{component}: in force"), token)
        tried = (*attempts(f"{component}: may"), *attempts(f"{component}: may not"))
        assert rights.surprises(api, tried, token) == {}
    finally:  # the next one has none of it
        tell("delete", changes - before.keys(), by_name(found))
        tell("apply", changes & before.keys(), before)
