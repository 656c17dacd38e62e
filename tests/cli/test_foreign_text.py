"""Text that others wrote, on its way to a terminal, a pipe or a file: shown, read back by programs, never obeyed."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.conftest import Command
from tests.kube.scripted import ScriptedServer, kubeconfig_document, write
from toposcope.cli.output import json_text, yaml_text
from toposcope.topology.text import escaped

STEERING = "\x1b]0;t\x07\x9b2J\u202e\u2066\u200f"
FOREIGN = st.text(
    st.one_of(st.sampled_from(f"{STEERING}\n\r\t\x85\u2028 #:-'\"\\"), st.characters(exclude_categories=["Cs"]))
)


@pytest.mark.parametrize("to", [json_text, yaml_text])
@given(key=FOREIGN, value=FOREIGN, comment=FOREIGN)
def test_documents_hold_no_character_that_steers_and_read_back(to: object, key: str, value: str, comment: str) -> None:
    document = [{key: value}, {"a": [value, key]}]
    text = yaml_text(document, [comment]) if to is yaml_text else json_text(document)
    assert all(escaped(line) == line for line in text.split("\n"))
    assert [*yaml.safe_load_all(text)] == [document] if to is yaml_text else json.loads(text) == document


def test_a_redirect_is_shown_and_not_obeyed(tmp_path: Path, toposcope: Command) -> None:
    redirect = "HTTP/1.1 302 Found\r\nLocation: http://login/\x1b[2J\x9b31m\r\nContent-Length: 0\r\n\r\n".encode(
        "latin-1"
    )
    with ScriptedServer([redirect] * 9) as server:
        config = write(tmp_path / "config", kubeconfig_document(server.url))
        error = toposcope("tree --kubeconfig", config, code=2).err
    assert r"points to http://login/\u001b[2J\u009b31m: no API server does" in error
    assert "\x1b" not in error


def test_a_plugin_s_error_is_shown_and_not_obeyed(tmp_path: Path, toposcope: Command) -> None:
    script = tmp_path / "plugin.py"
    script.write_text("import sys\nsys.exit('expired\\x1b[2J\\u202e\\nwarning: all is well')\n")
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    config = write(tmp_path / "config", kubeconfig_document(user={"exec": plugin}))
    error = toposcope("tree --kubeconfig", config, code=2).err
    assert "error: exec: process returned 1. expired\\u001b[2J\\u202e\n    warning: all is well\n" in error
    assert "\x1b" not in error
