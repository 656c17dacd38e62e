"""GPUs of ResourceSlices, and the claims that hold them."""

from pathlib import Path
from typing import Any

from tests.support.saved import saved
from toposcope.snapshot.files import load_files

API = "resource.k8s.io/v1"
NVIDIA = "gpu.nvidia.com"
HELD = {"devices": {"results": [{"request": "r", "driver": NVIDIA, "pool": "a", "device": "gpu-0"}]}}


def _node(name: str, **allocatable: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "64", **allocatable}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _gpus(node: str, count: int, *, generation: int = 2, version: str = "v1") -> dict[str, Any]:
    uuids = [{"type": {"string": "gpu"}, "uuid": {"string": f"{node}-{n}"}} for n in range(count)]
    found: list[Any] = [{"name": f"gpu-{number}", "attributes": attributes} for number, attributes in enumerate(uuids)]
    found.append({"name": "mig", "attributes": {"type": {"string": "mig"}}})
    if version == "v1beta1":
        found = [{"name": one["name"], "basic": {"attributes": one["attributes"]}} for one in found]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": NVIDIA, "nodeName": node, "pool": pool, "devices": found}
    named = {"name": f"{node}-{generation}"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": named, "spec": spec}


def test_gpus_of_slices_are_counted_once_and_those_of_claims_are_not_free(tmp_path: Path) -> None:
    objects = [
        *(_node("a"), _node("b"), _node("plugin", **{"nvidia.com/gpu": "8"})),
        *(_gpus("a", 4), _gpus("a", 6, generation=1), _gpus("b", 4, version="v1beta1"), _gpus("plugin", 8)),
        {"apiVersion": API, "kind": "ResourceClaim", "metadata": {"name": "c"}, "status": {"allocation": HELD}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "b"}, "status": {}},
    ]
    (tmp_path / "cluster.json").write_text(saved(objects))
    snapshot = load_files([str(tmp_path / "cluster.json")])
    found = {node.name: (node.gpus, snapshot.free_gpus(node), node.without_agent) for node in snapshot.nodes}
    assert found == {"a": (4, 3, True), "b": (4, 4, True), "plugin": (8, 8, True)}
