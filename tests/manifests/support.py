"""What the manifest tests share: rendered objects, kubectl."""

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MANIFESTS = Path(__file__).parents[2] / "manifests"
TOPOLOGIES = "/apis/gpu.topology/v1alpha1/clustertopologies"
NAMESPACE = "/api/v1/namespaces/toposcope-system"


class Manifests:
    """Rendered objects, found by kind and name."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._objects = objects

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._objects)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        (found,) = (o for o in self if (o["kind"], o["metadata"]["name"]) == (kind, name))
        return found

    def pod_template(self, program: str) -> dict[str, Any]:
        """The pod template of `agent`, `controller` or `ui`."""
        kind = {"agent": "DaemonSet"}.get(program, "Deployment")
        template: dict[str, Any] = self.get(kind, f"toposcope-{program}")["spec"]["template"]
        return template

    def pod(self, program: str, name: str, **spec: Any) -> dict[str, Any]:
        """A pod as the DaemonSet's or Deployment's controller would make it, with some of its spec given."""
        template = copy.deepcopy(self.pod_template(program))
        metadata, template_spec = {**template["metadata"], "name": name}, {**template["spec"], **spec}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template_spec}


def run_kubectl(kubectl: str, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([kubectl, *arguments], capture_output=True, check=False, text=True, input=stdin, timeout=60)
    assert done.returncode == 0, done.stderr
    return done
