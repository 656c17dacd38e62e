"""A value of the wrong type, depth or size, anywhere in a saved object, is a problem with its place or does no harm."""

import copy
import io
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.snapshot.clusters import names
from tests.support.documents import read_manifests
from tests.support.saved import Object
from toposcope.errors import ToposcopeError
from toposcope.placement.check import Checker
from toposcope.planning.plan import Plan
from toposcope.snapshot.decode import keep_every
from toposcope.snapshot.files import load_files
from toposcope.snapshot.packed import unpacked, write_packed
from toposcope.snapshot.problems import InputError
from toposcope.snapshot.scope import select_scope
from toposcope.snapshot.tree import tree

OBJECTS = {document["kind"]: document for document in read_manifests("snapshot/each-kind.yaml")}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "w", "labels": {"kueue.x-k8s.io/queue-name": "q", "kai.scheduler/queue": "q"}},
    "spec": {"parallelism": 2, "template": {"spec": {"containers": OBJECTS["Pod"]["spec"]["containers"]}}},
}


def deep(levels: int, name: str = "a") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {name: [value]}
    return value


VALUES = {
    "deep": deep(95),
    "large-number": 10**30,
    "negative-number": -(10**30),
    "large-fraction": 1e308,
    "null": None,
    "thousands-of-digits": 10**4000,
    "digits-as-text": "9" * 5000,
    "superscript": "\u00b2",
}


def object_of(kind: str) -> Object:
    """A new object of this kind."""
    document = copy.deepcopy(OBJECTS[kind])
    document["metadata"] = {
        "name": "a",
        "uid": "u",
        "labels": {"gpu.topology/gpus": "8", "kubernetes.io/hostname": "a", "topology.kubernetes.io/zone": "z"},
        "annotations": {"gpu.topology/matrix": "{}"},
        "generation": 1,
    }
    return document


Path = tuple[Any, ...]


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Where each value is, by names and positions."""
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return
    for name, child in children:
        yield (*above, name)
        yield from paths(child, (*above, name))


def put(document: Object, path: Path, value: Any) -> None:
    """Replace the value at a path."""
    *above, last = path
    place: Any = document
    for name in above:
        place = place[name]
    place[last] = value


def look(objects: list[Object]) -> None:
    """What commands do with saved objects."""
    content = msgspec.json.encode({"kind": "List", "items": objects})
    snapshot = load_files(["-"], io.BytesIO(content))
    tree(snapshot, select_scope(snapshot))
    out = io.BytesIO()
    write_packed(snapshot, out)
    out.seek(0)
    again = unpacked("saved", out, keep_every)
    assert names(again.nodes) == names(snapshot.nodes)
    pods = list(again.pods or ())
    assert len(pods) == len(snapshot.pods or ())
    Checker(snapshot).check(JOB)
    if snapshot.pods is not None:
        plan = Plan(snapshot, select_scope(snapshot))
        assert plan.slots is not None


def large(value: Any) -> msgspec.Raw | Any:
    """As JSON, where the number has more than 64 bits."""
    return msgspec.Raw(str(value).encode()) if isinstance(value, int) else value


@pytest.mark.regression
@pytest.mark.slow
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_hostile_value_anywhere_in_an_object(kind: str, value: Any) -> None:
    others = [object_of(other) for other in OBJECTS if other != kind]
    for path in paths(object_of(kind)):
        spoiled = object_of(kind)
        put(spoiled, path, large(value))
        with suppress(ToposcopeError):  # a problem, with its place
            look([*others, spoiled])


def test_objects_are_read_as_they_are() -> None:
    look([object_of(kind) for kind in OBJECTS])


@pytest.mark.parametrize("attribute", [{"a": 1}, ["a"], 7, True, None])
def test_device_whose_uuid_is_no_text(attribute: Any) -> None:
    slice_ = object_of("ResourceSlice")
    device = slice_["spec"]["devices"][0]
    device["attributes"]["uuid"] = {"string": attribute}
    look([object_of("Node"), slice_])


@pytest.mark.parametrize("number", [10**30, -(10**30), 10**4000, -(10**4000)], ids=["large", "small", "huge", "tiny"])
def test_number_of_any_size_in_an_object_that_is_kept(number: int) -> None:
    topology = object_of("ClusterTopology")
    topology["spec"]["x"] = large(number)
    look([object_of("Node"), topology])


@pytest.mark.regression
def test_a_name_that_looks_like_the_path_of_an_error_is_quoted_whole() -> None:
    node = object_of("Node")
    node["metadata"]["name"] = "a - at `$.spec`"
    with pytest.raises(InputError) as raised:
        look([node])
    (problem,) = raised.value.problems
    assert problem.field == "metadata.name"
    assert problem.message.startswith("'a - at `$.spec`' is not a valid name: ")
