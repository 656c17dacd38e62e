"""A value of the wrong type, depth or size, anywhere in a saved object, is a problem with its place or does no harm."""

import copy
import io
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from toposcope.errors import ToposcopeError
from toposcope.placement.check import Checker
from toposcope.planning.plan import Plan
from toposcope.snapshot.decode import every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.packed import unpacked, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import tree

CONTAINERS = [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "2"}}}]
LABELS = {"gpu.topology/gpus": "8", "kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"}
MESSAGE = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Too many pods."}
DEVICE = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "uuid": {"string": "u"}}, "capacity": {}}
POOL = {"name": "a", "generation": 1, "resourceSliceCount": 1}
REGEX = {"type": "Node", "selector": {"regexMatch": {"pattern": "^a"}}}
FLAVORS = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "9"}]}]
OBJECTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "Node": (
        "v1",
        {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}], "unschedulable": False},
        {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "Pod": (
        "v1",
        {"containers": CONTAINERS, "priority": 3, "nodeSelector": {"a": "b"}, "tolerations": [{"key": "k"}]},
        {"phase": "Pending", "conditions": [MESSAGE]},
    ),
    "ResourceSlice": ("resource.k8s.io/v1", {"driver": "d", "nodeName": "a", "pool": POOL, "devices": [DEVICE]}, {}),
    "ClusterTopology": (
        "gpu.topology/v1alpha1",
        {"levels": [{"domain": "zone", "key": "topology.kubernetes.io/zone"}], "minCoveragePercent": 90},
        {"levels": [{"domain": "zone", "key": "k"}], "conditions": [{"type": "Ready", "status": "True"}]},
    ),
    "HyperNode": ("topology.volcano.sh/v1alpha1", {"tier": 1, "members": [REGEX]}, {}),
    "ClusterQueue": (
        "kueue.x-k8s.io/v1beta1",
        {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": FLAVORS}]},
        {"flavorsReservation": [{"name": "f", "resources": [{"name": "cpu", "total": "1"}]}]},
    ),
    "Queue": ("scheduling.run.ai/v2", {"resources": {"gpu": {"limit": 3, "quota": 2}}}, {"allocated": {"cpu": "1"}}),
}
"""Kind to version, spec and status."""
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "w", "labels": {"kueue.x-k8s.io/queue-name": "q", "kai.scheduler/queue": "q"}},
    "spec": {"parallelism": 2, "template": {"spec": {"containers": CONTAINERS}}},
}


def deep(levels: int, name: str = "a") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {name: [value]}
    return value


VALUES = {
    "a deep value": deep(95),
    "a large number": 10**30,
    "a negative number": -(10**30),
    "a large fraction": 1e308,
    "nothing": None,
    "a number of thousands of digits": 10**4000,
    "digits as text": "9" * 5000,
    "a digit that is none": "\u00b2",
}


def made(kind: str) -> dict[str, Any]:
    version, spec, status = OBJECTS[kind]
    metadata = {
        "name": "a",
        "uid": "u",
        "labels": LABELS,
        "annotations": {"gpu.topology/matrix": "{}"},
        "generation": 1,
    }
    return copy.deepcopy({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status})


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        yield (*above, name)
        yield from paths(child, (*above, name))


def look(objects: list[dict[str, Any]]) -> None:
    """What commands do with saved objects."""
    snapshot = load_files(["-"], io.BytesIO(msgspec.json.encode({"kind": "List", "items": objects})))
    tree(snapshot, select_scope(snapshot))
    out = io.BytesIO()
    write_packed(snapshot, out)
    again = unpacked("saved", io.BytesIO(out.getvalue()), every)
    assert [node.name for node in again.nodes] == [node.name for node in snapshot.nodes]
    assert len(list(again.pods or ())) == len(snapshot.pods or ())
    Checker(snapshot).check(JOB)
    if snapshot.pods is not None:
        assert Plan(snapshot, select_scope(snapshot)).slots is not None


def large(value: Any) -> msgspec.Raw | Any:
    """As JSON, where the number has more than 64 bits."""
    return msgspec.Raw(str(value).encode()) if isinstance(value, int) else value


@pytest.mark.regression
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_hostile_value_anywhere_in_an_object(kind: str, value: Any) -> None:
    others = [made(other) for other in OBJECTS if other != kind]
    for path in paths(made(kind)):
        spoiled = made(kind)
        at: Any = spoiled
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = large(value)
        with suppress(ToposcopeError):  # a problem, with its place
            look([*others, spoiled])


def test_the_objects_are_read_as_they_are() -> None:
    look([made(kind) for kind in OBJECTS])


@pytest.mark.parametrize("attribute", [{"a": 1}, ["a"], 7, True, None])
def test_a_device_whose_uuid_is_no_text(attribute: Any) -> None:
    slice_ = made("ResourceSlice")
    slice_["spec"]["devices"][0]["attributes"]["uuid"] = {"string": attribute}
    look([made("Node"), slice_])


@pytest.mark.parametrize("number", [10**30, -(10**30), 10**4000, -(10**4000)])
def test_a_number_of_any_size_in_an_object_that_is_kept(number: int) -> None:
    topology = made("ClusterTopology")
    topology["spec"]["x"] = large(number)
    look([made("Node"), topology])


@pytest.mark.regression
def test_a_name_that_looks_like_the_path_of_an_error_is_quoted_whole() -> None:
    node = made("Node")
    node["metadata"]["name"] = "a - at `$.spec`"
    with pytest.raises(InputError) as raised:
        look([node])
    (problem,) = raised.value.problems
    assert problem.field == "metadata.name"
    assert problem.message.startswith("'a - at `$.spec`' cannot be a name: ")
