"""GPUs of ResourceSlices, and the claims that hold them."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered
from tests.support.saved import saved
from tests.support.slices import gpus_of, slice_of
from tests.support.tables import each_case
from toposcope.agent.slices import seen_gpus
from toposcope.integrations.dra.audit import disagreements
from toposcope.integrations.dra.devices import NodeDevices, inventory
from toposcope.simulator.profile import load_profile, profile_names
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
        found = [{"name": device["name"], "basic": {"attributes": device["attributes"]}} for device in found]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": NVIDIA, "nodeName": node, "pool": pool, "devices": found}
    named = {"name": f"{node}-{generation}"}
    return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": named, "spec": spec}


@pytest.mark.regression
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


def _there(devices: list[Any]) -> NodeDevices:
    return inventory([slice_of("n", NVIDIA, devices)]).nodes["n"]


@pytest.mark.parametrize("profile", profile_names())
def test_a_driver_that_reads_the_same_files_disagrees_in_nothing(profile: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    assert disagreements(seen_gpus(topology), _there(gpus_of(topology))) == ()


@pytest.mark.regression
@each_case("tables/integrations.yaml")
def test_what_a_driver_says_otherwise(change: dict[str, Any], said: list[str], tmp_path: Path) -> None:
    topology = discovered(load_profile("l40s-4"), tmp_path)
    devices = gpus_of(topology)
    attributes = {**devices[1]["attributes"], **change}
    devices[1]["attributes"] = {name: value for name, value in attributes.items() if value}
    assert list(disagreements(seen_gpus(topology), _there(devices))) == said
