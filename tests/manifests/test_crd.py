"""The CustomResourceDefinition: complete, structural, readable."""

import re
from collections.abc import Iterator
from typing import Any

from tests.manifests.support import create_topology
from tests.support.api import ApiUnderTest
from toposcope.api.cluster_topology import read

Schema = dict[str, Any]


def fields(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every schema below and including this one, with the path that an error message gives it."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from fields(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields(schema["additionalProperties"], f"{path}[*]")


def schema_of(crd: Schema) -> Schema:
    (version,) = crd["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def test_names_keep_out_of_the_way_of_other_projects(crd: Schema) -> None:
    assert crd["metadata"]["name"] == "clustertopologies.gpu.topology"
    spec = crd["spec"]
    assert spec["scope"] == "Cluster"
    # A CRD whose short name is taken is not served; Grove has `ct`, Kueue has `topo`.
    assert spec["names"]["shortNames"] == ["gtopo"]
    (version,) = spec["versions"]
    assert version["name"] == "v1alpha1"
    assert version["served"] is True
    assert version["storage"] is True
    assert version["subresources"] == {"status": {}}


def test_every_schema_has_one_type_and_nothing_is_left_open(crd: Schema) -> None:
    types = {"object", "array", "string", "integer", "boolean"}
    open_ends = {
        "x-kubernetes-preserve-unknown-fields",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
    }
    for path, schema in fields(schema_of(crd), ""):
        assert schema["type"] in types, path
        assert schema.keys().isdisjoint(open_ends), path


def test_every_field_is_explained(crd: Schema) -> None:
    # The API server describes metadata itself and refuses a description of it.
    bare = []
    for path, schema in fields(schema_of(crd), ""):
        if not schema.get("description"):
            bare.append(path)
    assert bare == ["metadata"]


def test_everything_is_bounded(crd: Schema) -> None:
    bounds = {
        "array": {"maxItems"},
        "string": {"maxLength", "enum", "format"},
    }
    unbounded = set()
    for path, schema in fields(schema_of(crd), ""):
        keywords = bounds.get(schema["type"])
        if keywords and schema.keys().isdisjoint(keywords):
            unbounded.add(path)
    assert unbounded == {"apiVersion", "kind"}


def test_lists_say_how_they_merge(crd: Schema) -> None:
    for path, schema in fields(schema_of(crd), ""):
        if schema["type"] == "array":
            merged_as = schema["x-kubernetes-list-type"]
            assert merged_as in {"atomic", "set", "map"}, path


def test_status_carries_a_handful_of_names_and_no_node_lists(crd: Schema) -> None:
    by_path = dict(fields(schema_of(crd), ""))
    assert by_path["status.levels[].missingNodes"]["maxItems"] == 10


def test_every_rule_has_a_message(crd: Schema) -> None:
    for path, schema in fields(schema_of(crd), ""):
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"], path


def test_printer_columns_point_at_fields_that_exist(crd: Schema) -> None:
    (version,) = crd["spec"]["versions"]
    known = {"metadata.creationTimestamp"}
    for path, _ in fields(schema_of(crd), ""):
        known.add(path)
    columns = version["additionalPrinterColumns"]
    names = [column["name"] for column in columns]
    assert names == [
        "Ready",
        "LevelsAvailable",
        "Levels",
        "Nodes",
        "GPUs",
        "LeftOut",
        "Age",
        "Message",
    ]
    for column in columns:
        path = re.sub(r"\[\?\(.*?\)\]", "[]", column["jsonPath"])
        assert path.removeprefix(".") in known, column["name"]


def test_empty_spec_is_filled_in(served: ApiUnderTest) -> None:
    status, body = create_topology(served, {})
    assert status == 201
    assert body["spec"] == {
        "minCoveragePercent": 95,
        "gracePeriod": "10m",
        "removalPolicy": "Remove",
        "segments": "Off",
        "publish": {
            "grove": "Auto",
            "kai": "Auto",
            "kueue": "Auto",
        },
    }


def test_larger_selector_that_an_older_crd_took_selects_no_node() -> None:
    expressions = []
    for number, count in enumerate((256, 256, 1)):
        expression = {
            "key": "gpu.topology/gpus",
            "operator": "NotIn",
            "values": [f"{number}-{value}" for value in range(count)],
        }
        expressions.append(expression)
    document = {
        "metadata": {"name": "cluster"},
        "spec": {"nodeSelector": {"matchExpressions": expressions}},
    }

    topology = read(document)

    (problem,) = topology.problems
    assert problem == (
        "spec.nodeSelector.matchExpressions: 513 values in all, and 512 are supported; give the nodes a label of their "
        "own and select by that; until then no node is selected"
    )
    (requirement,) = topology.selector
    assert requirement.operator == "In"
    assert requirement.values == frozenset()
    assert "0-255" not in str(topology.spec)
