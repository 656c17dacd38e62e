"""What the manifest tests share: rendered objects, kubectl."""

import copy
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.support.api import ApiUnderTest, wait_until
from tests.support.paths import MANIFESTS

TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
COMPONENTS = MANIFESTS / "components"
NAMESPACE = "/api/v1/namespaces/toposcope-system"
JOB = "/apis/batch/v1/namespaces/toposcope-system/jobs/toposcope-prune"
FINISHED: dict[str, Any] = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:00:01Z",
    "succeeded": 1,
    "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
        {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
    ],
}
"""The status of a Job that is done."""


class Manifests:
    """Rendered objects, found by kind and name."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._objects = objects

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._objects)

    def by_name(self) -> dict[tuple[str, str], dict[str, Any]]:
        """All objects by kind and name."""
        items = {}
        for item in self:
            name = item["metadata"]["name"]
            items[item["kind"], name] = item
        return items

    def of_kind(self, *kinds: str) -> list[dict[str, Any]]:
        """The objects of some kinds."""
        return [item for item in self if item["kind"] in kinds]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """The object of this kind and name."""
        return self.by_name()[kind, name]

    def pod_template(self, program: str) -> dict[str, Any]:
        """The pod template of `agent`, `switches`, `controller`, `ui` or `prune`."""
        kind = {"agent": "DaemonSet", "switches": "DaemonSet", "prune": "Job"}.get(program, "Deployment")
        return self.get(kind, f"toposcope-{program}")["spec"]["template"]

    def pod_spec(self, program: str) -> dict[str, Any]:
        """The spec of a program's pods."""
        return self.pod_template(program)["spec"]

    def container(self, program: str) -> dict[str, Any]:
        """The container of a program's pods that is named like it."""
        containers = {}
        for container in self.pod_spec(program)["containers"]:
            containers[container["name"]] = container
        found: dict[str, Any] = containers[program]
        return found

    def pod(self, program: str, name: str, **spec: Any) -> dict[str, Any]:
        """A pod as the controller of DaemonSets, Deployments or Jobs would make it, with some of its spec given."""
        template = copy.deepcopy(self.pod_template(program))
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": name},
            "spec": {**template["spec"], **spec},
        }


Render = Callable[..., Manifests]
"""Builds the base with the components of these names."""


def changed(base: Manifests, other: Manifests) -> set[tuple[str, str]]:
    """Kinds and names of what others have beside the base's objects or have otherwise; they lack none of it."""
    before = base.by_name()
    after = other.by_name()
    assert before.keys() <= after.keys()
    names = set()
    for name, item in after.items():
        if before.get(name) != item:
            names.add(name)
    return names


def run_kubectl(kubectl: str, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [kubectl, *arguments],
        capture_output=True,
        check=False,
        text=True,
        input=stdin,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done


def apply_folder(api: ApiUnderTest, kubectl: str, folder: Path) -> None:
    """Apply what kustomize makes of a folder, as an administrator does it."""
    run_kubectl(
        kubectl,
        "--kubeconfig",
        api.kubeconfig,
        "apply",
        "--server-side",
        "-k",
        folder,
    )


def built(kubectl: str, folder: Path) -> Manifests:
    """What kustomize makes of a folder, without a word of complaint."""
    done = run_kubectl(kubectl, "kustomize", folder)
    assert done.stderr == ""
    return Manifests(list(yaml.load_all(done.stdout, yaml.CSafeLoader)))


def write_overlay(folder: Path, components: Iterable[str], **fields: Any) -> Path:
    """An overlay of the base with some components and fields such as `namespace`, as an admin writes it."""

    def there(path: Path) -> str:
        return os.path.relpath(path, folder)

    text = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [there(MANIFESTS / "base")],
        "components": [there(COMPONENTS / name) for name in components],
        **fields,
    }
    folder.mkdir(exist_ok=True)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    return folder


def serve(api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """Have the API server serve ClusterTopology."""
    apply_folder(api, kubectl, MANIFESTS / "crds")
    wait_until(
        lambda: api.ask("GET", TOPOLOGIES).code == 200,
        "clustertopologies are served",
    )
    return api


def create_topology(api: ApiUnderTest, spec: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """What the API server answers to a ClusterTopology with this spec, which is not stored."""
    body = {
        "apiVersion": "gpu.topology/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "rules"},
        "spec": spec,
    }
    return api.request("POST", f"{TOPOLOGIES}?dryRun=All&fieldValidation=Strict", body)


def install(api: ApiUnderTest, kubectl: str) -> ApiUnderTest:
    """Apply the whole base, and the RuntimeClass that a GPU cluster brings along."""
    serve(api, kubectl)
    apply_folder(api, kubectl, MANIFESTS / "base")
    create_runtime_class(api)
    return api


def create_runtime_class(api: ApiUnderTest) -> None:
    """Apply the RuntimeClass that NVIDIA's operator would bring along."""
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "nvidia"},
        "handler": "nvidia",
    }
    path = "/apis/node.k8s.io/v1/runtimeclasses/nvidia"
    code, answer = api.apply(path, runtime_class)
    assert code in {200, 201}, answer


def variables_of(policy: dict[str, Any]) -> dict[str, str]:
    """The expressions that a policy gives names to."""
    expressions = {}
    for variable in policy["spec"]["variables"]:
        expressions[variable["name"]] = variable["expression"]
    return expressions


def environment(container: dict[str, Any]) -> dict[str, Any]:
    """A container's variables by name."""
    return {variable["name"]: variable for variable in container["env"]}


def assert_starts_quietly(container: dict[str, Any]) -> None:
    """No probe fails, and so leaves an Event `Unhealthy`, while the container starts; a slow start has a minute."""
    startup = container["startupProbe"]
    assert startup["httpGet"] == container["livenessProbe"]["httpGet"]
    assert startup["initialDelaySeconds"] >= 3
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60
