"""Text that others wrote, on its way to a terminal, a pipe or a file: shown, read back by programs, never obeyed."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Command
from tests.kube.scripted import ScriptedServer, kubeconfig_document, write
from tests.support.saved import demo_nodes, saved
from toposcope.api.label_values import is_name
from toposcope.cli.output import json_text, yaml_text
from toposcope.cli.suggest import _text
from toposcope.snapshot.decode import Decoder
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.suggest import suggest
from toposcope.text import escaped

RACK = "cloud.google.com/gce-topology-subblock"

STEERING = "\x1b]0;t\x07\x9b2J\u202e\u2066\u200f"
FOREIGN = st.text(
    st.one_of(st.sampled_from(f"{STEERING}\n\r\t\x85\u2028 #:-'\"\\"), st.characters(exclude_categories=["Cs"]))
)


@pytest.mark.regression
@given(key=FOREIGN, value=FOREIGN)
def test_json_holds_no_control_characters_and_reads_back(key: str, value: str) -> None:
    document = [{key: value}, {"a": [value, key]}]
    text = json_text(document)
    assert_is_shown_as_it_is(text)
    assert json.loads(text) == document


@pytest.mark.regression
@given(key=FOREIGN, value=FOREIGN, comment=FOREIGN)
def test_yaml_holds_no_control_characters_and_reads_back(key: str, value: str, comment: str) -> None:
    document = [{key: value}, {"a": [value, key]}]
    text = yaml_text(document, [comment])
    assert_is_shown_as_it_is(text)
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == [document]


def assert_is_shown_as_it_is(text: str) -> None:
    """No line has a character that a terminal would obey."""
    for line in text.split("\n"):
        assert escaped(line) == line


@pytest.mark.regression
def test_redirect_is_shown_and_not_obeyed(tmp_path: Path, toposcope: Command) -> None:
    redirect = "HTTP/1.1 302 Found\r\nLocation: http://login/\x1b[2J\x9b31m\r\nContent-Length: 0\r\n\r\n".encode(
        "latin-1"
    )
    with ScriptedServer([redirect] * 9) as server:
        config = write(tmp_path / "config", kubeconfig_document(server.url))
        error = toposcope("tree --kubeconfig", config, code=2).err
    assert r"to http://login/\u001b[2J\u009b31m, which API servers never do" in error
    assert "\x1b" not in error


@pytest.mark.regression
def test_plugin_s_error_is_shown_and_not_obeyed(tmp_path: Path, toposcope: Command) -> None:
    script = tmp_path / "plugin.py"
    script.write_text("import sys\nsys.exit('expired\\x1b[2J\\u202e\\nwarning: all is well')\n")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    config = write(tmp_path / "config", kubeconfig_document(user={"exec": plugin}))
    error = toposcope("tree --kubeconfig", config, code=2).err
    assert "error: exec: process returned 1. expired\\u001b[2J\\u202e\n    warning: all is well\n" in error
    assert "\x1b" not in error


EVIL = "x\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n# "
NAMED: dict[str, Callable[[Any, str], None]] = {
    "metadata.name": lambda node, name: node["metadata"].update(name=name),
    "metadata.labels": lambda node, name: node["metadata"]["labels"].update({RACK: name}),
}


@pytest.mark.regression
@pytest.mark.parametrize("field", NAMED)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_names_that_no_server_takes_are_refused(field: str, form: str, tmp_path: Path, toposcope: Command) -> None:
    """A node's name of several lines made `kubectl apply` of the suggestion create a ClusterRoleBinding."""
    first, second, third = demo_nodes(most=3)
    NAMED[field](second, EVIL)
    nodes = [first, second, third]
    text = saved(nodes) if form == "json" else yaml.safe_dump_all(nodes)
    file = tmp_path / f"cluster.{form}"
    file.write_text(text)
    ran = toposcope("suggest --from", file, code=2)
    assert ran.out == ""
    assert re.search(rf"^{file}, .*line \d+: {field}: 'x\\n---\\napi.* is not a valid ", ran.err)


@pytest.mark.regression
@pytest.mark.parametrize("name", ["a", "a.b-c.0", "x" * 253])
def test_name_is_of_small_letters_digits_dots_and_dashes(name: str) -> None:
    assert is_name(name)
    assert not is_name(f"{name}\n")
    assert not is_name(f"-{name}")
    assert not is_name(f"{name}A")
    assert not is_name(f"{name} b")
    assert not is_name(f"{name}/b")
    assert not is_name(name + "x" * 253)


def node_with(name: str, labels: dict[str, str]) -> NodeView:
    """A node that no reader lets through."""
    document = {"metadata": {"name": "n"}}
    node = Decoder().node(lambda kind: msgspec.convert(document, kind))
    places = {key: place for place, key in enumerate(labels)}
    return msgspec.structs.replace(
        node,
        name=name,
        places=places,
        values=tuple(labels.values()),
    )


@pytest.mark.regression
@given(product=FOREIGN, names=st.lists(FOREIGN, min_size=3, max_size=3), wide=st.booleans())
def test_suggest_writes_a_document_for_each_suggestion(product: str, names: list[str], wide: bool) -> None:
    """Even from nodes that no reader lets through."""
    labels = {"gpu.topology/gpus": "8"}
    labels_of_a_product = {**labels, "nvidia.com/gpu.product": product, RACK: "r"}
    nodes = [
        node_with(names[0], labels_of_a_product),
        node_with(names[1], labels_of_a_product),
        node_with(names[2], labels),
    ]
    suggestions = suggest(Snapshot("a test", None, tuple(nodes), None)).suggestions
    text = _text(suggestions, "wide" if wide else "yaml")
    documents = list(yaml.load_all(text, yaml.CSafeLoader))
    assert len(documents) == len(suggestions)
    for document in documents:
        assert document["kind"] == "ClusterTopology"
        assert is_name(document["metadata"]["name"])
