"""Lists: their types, tables, pages and selectors."""

from typing import Any
from urllib.parse import quote

import pytest
from tests.simulator.apiserver.dialogue import (
    CONFIG_MAPS,
    METADATA_LIST,
    NODE,
    TABLE,
    create_node,
    get,
    names_of,
    version_of,
)
from tests.support.api import NODES, ApiUnderTest


@pytest.fixture
def racked(api: ApiUnderTest) -> ApiUnderTest:
    """The API server with nodes a and b in rack r1, and c in none."""
    create_node(api, "a", name="a", rack="r1")
    create_node(api, "b", name="b", rack="r1")
    create_node(api, "c", name="c")
    return api


# Forms


def test_items_of_built_in_lists_have_no_type(api: ApiUnderTest) -> None:
    create_node(api, name="a")
    nodes = api.get(NODES)
    assert nodes["kind"] == "NodeList"
    assert nodes["apiVersion"] == "v1"
    (item,) = nodes["items"]
    assert item["metadata"]["name"] == "n1"
    assert "kind" not in item
    assert "apiVersion" not in item
    alone = api.get(NODE)
    assert alone["kind"] == "Node"


def test_list_can_be_of_metadata_only(api: ApiUnderTest) -> None:
    create_node(api, name="a")
    nodes = get(api, f"{NODES}?limit=500", METADATA_LIST)
    assert nodes["kind"] == "PartialObjectMetadataList"
    assert nodes["apiVersion"] == "meta.k8s.io/v1"
    (item,) = nodes["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert item["metadata"]["labels"] == {"name": "a"}
    assert "spec" not in item


@pytest.mark.parametrize("path", [NODES, f"{CONFIG_MAPS}?labelSelector=x"], ids=["nodes", "config-maps"])
def test_table_of_nothing_has_columns(api: ApiUnderTest, path: str) -> None:
    table = get(api, path, TABLE)
    assert table["kind"] == "Table"
    assert table["rows"] == []
    first_column = table["columnDefinitions"][0]
    assert first_column["name"] == "Name"


def test_table_of_one_object_has_one_row(api: ApiUnderTest) -> None:
    create_node(api)
    table = get(api, NODE, TABLE)
    assert table["kind"] == "Table"
    (row,) = table["rows"]
    name, *_others = row["cells"]
    assert name == "n1"


# Pages


def page_of_two(api: ApiUnderTest, previous: Any = None) -> Any:
    """The first two nodes, or the two after a page."""
    query = "limit=2"
    if previous:
        token = previous["metadata"]["continue"]
        query += f"&continue={token}"
    return api.get(f"{NODES}?{query}")


def test_pages_have_the_version_of_the_first_one(racked: ApiUnderTest) -> None:
    """Also where something changes meanwhile. A kube-apiserver writes, too: its own lease."""
    create_node(racked, "d", name="d")
    create_node(racked, "e", name="e")
    first = page_of_two(racked)
    version = version_of(first)
    assert names_of(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 3

    change = {"metadata": {"labels": {"name": "changed"}}}
    racked.patch(f"{NODES}/e", change)
    second = page_of_two(racked, first)
    assert names_of(second) == ["c", "d"]
    assert version_of(second) == version

    third = page_of_two(racked, second)
    assert names_of(third) == ["e"]
    assert version_of(third) == version


def test_continue_key_that_is_none_is_refused(api: ApiUnderTest) -> None:
    code, answer = api.request("GET", f"{NODES}?continue=x")
    assert code == 400
    assert answer["reason"] == "BadRequest"
    assert "continue key is not valid" in answer["message"]


# Selectors


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("rack", ["a", "b"], id="exists"),
        pytest.param("!rack", ["c"], id="does-not-exist"),
        pytest.param("rack=r1,name=a", ["a"], id="equal"),
        pytest.param("name!=a", ["b", "c"], id="not-equal"),
        pytest.param("name in (a,c),rack", ["a"], id="in"),
        pytest.param("rack notin (r1,r3)", ["c"], id="not-in"),
    ],
)
def test_label_selector_chooses_nodes(racked: ApiUnderTest, selector: str, names: list[str]) -> None:
    query = quote(selector)
    nodes = racked.get(f"{NODES}?labelSelector={query}")
    chosen = names_of(nodes)
    assert chosen == names


def test_field_selector_chooses_nodes(racked: ApiUnderTest) -> None:
    nodes = racked.get(f"{NODES}?fieldSelector=metadata.name%3Dc")
    assert names_of(nodes) == ["c"]


def test_field_and_label_selectors_choose_together(racked: ApiUnderTest) -> None:
    nodes = racked.get(f"{NODES}?fieldSelector=metadata.name%21%3Db&labelSelector=rack")
    assert names_of(nodes) == ["a"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("labelSelector=a!!b", "unable to parse requirement", id="label"),
        pytest.param("fieldSelector=spec.no%3D1", "field label not supported: spec.no", id="field"),
    ],
)
def test_selector_that_is_none_is_refused(api: ApiUnderTest, query: str, message: str) -> None:
    code, answer = api.request("GET", f"{NODES}?{query}")
    assert code == 400
    assert answer["reason"] == "BadRequest"
    assert message in answer["message"]
