"""The exported file: it is complete, runs nothing but its own script, and keeps what the cluster says as data."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.snapshot.clusters import snapshot, view
from tests.support.saved import cluster_topology, demo_nodes, saved
from tests.ui.serving import bundle, rack_nodes
from toposcope.api import label_keys
from toposcope.cli.main import main
from toposcope.snapshot.model import Snapshot
from toposcope.ui import protocol
from toposcope.ui.bundle import Bundle, PageNotBuiltError
from toposcope.ui.export import DATA, document, escaped, export
from toposcope.ui.program import listening

HOSTILE = "</script><script>alert(1)</script><!--<svg onload=alert(1)>\u2028\u2029&'\"`${x}"


def _tags(page: str, tag: str) -> list[tuple[str, str]]:
    """The attributes and the text of each such element."""
    element = rf"<{tag}\b([^>]*)>(?:(.*?)</{tag}>)?"
    return re.findall(element, page, re.DOTALL)


def _hostile() -> Snapshot:
    """A cluster whose texts are markup."""
    annotation = json.dumps({"version": 1, "reasons": [HOSTILE]})
    degraded = view("n0", state="degraded")
    node = msgspec.structs.replace(degraded, matrix=annotation)
    condition = {
        "type": "LevelsCovered",
        "status": "False",
        "reason": HOSTILE,
        "message": HOSTILE,
    }
    topology = cluster_topology({"conditions": [condition]})
    _, *others = rack_nodes()
    cluster = snapshot([node, *others], (), topology)
    return replace(cluster, source=HOSTILE)


def test_export_runs_only_its_own_script_and_style(tmp_path: Path) -> None:
    page = export(_hostile(), "cluster", bundle(tmp_path / "b"))
    (data, text), (script, code) = _tags(page, "script")
    assert data == f' type="application/json" id="{DATA}"'
    assert script == ""
    assert code == '"use strict";\n'
    for character in ("<", ">", "&", "\u2028", "\u2029"):
        assert character not in text
    exported = msgspec.json.decode(text, type=protocol.Export)
    assert exported.snapshot.source_name == HOSTILE

    ((_, style),) = _tags(page, "style")
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # Right behind <head>: before anything that could load.
    assert f'<head><meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    assert "<link" not in page


def _hash(text: str) -> str:
    """As a Content-Security-Policy names a script or style."""
    digest = hashlib.sha256(text.encode()).digest()
    encoded = base64.b64encode(digest).decode()
    return f"'sha256-{encoded}'"


def test_escaped_html_means_the_same() -> None:
    text = json.dumps({"a": HOSTILE})
    assert json.loads(escaped(text)) == {"a": HOSTILE}


def test_degraded_nodes_come_first_when_not_all_fit() -> None:
    degraded = view("sick", state="degraded")
    cluster = snapshot((*rack_nodes(20), degraded))
    whole = document(cluster, "cluster")
    assert len(whole.nodes) == 21
    assert whole.left_out == 0

    some = document(cluster, "cluster", 8 << 10)
    first, *others = some.nodes
    assert first == "sick"
    count = 1 + len(others)
    assert 2 <= count < 20
    assert some.left_out == 21 - count
    assert len(some.snapshot.nodes.name) == 21


@pytest.mark.parametrize(
    "script", ["x = '</script>'", "x = '</SCRIPT '", "x = '<!--'"], ids=["end", "upper-case", "comment"]
)
def test_script_that_would_end_its_own_tag_is_an_error(tmp_path: Path, script: str) -> None:
    page = bundle(tmp_path / "b", script)
    with pytest.raises(ValueError, match="would end its tag"):
        export(_hostile(), "cluster", page)


def test_missing_or_broken_page_cannot_be_exported(tmp_path: Path) -> None:
    missing = Bundle(tmp_path)
    with pytest.raises(PageNotBuiltError, match="this installation has no page"):
        export(_hostile(), "cluster", missing)
    folder = tmp_path / "b"
    broken = bundle(folder)
    (folder / "index.html").write_text("<html></html>")
    with pytest.raises(PageNotBuiltError, match=r"does not load app\.css and app\.js once each"):
        export(_hostile(), "cluster", broken)


def test_command_writes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "b"
    page = bundle(folder)
    monkeypatch.setattr("toposcope.ui.bundle.Bundle.__init__", lambda self: setattr(self, "_folder", folder))
    source = tmp_path / "cluster.json"
    source.write_text(saved([*demo_nodes(most=3), cluster_topology()]))
    target = tmp_path / "report.html"

    code = main(["ui", "--from", str(source), "--export", str(target)])
    assert code == 0
    printed = capsys.readouterr().out
    assert "3 nodes" in printed
    (_, text), _script = _tags(target.read_text(), "script")
    exported = json.loads(text)
    nodes = exported["nodes"]
    assert sorted(nodes) == ["gb200-01", "gb200-02", "gb200-03"]
    assert nodes["gb200-01"]["matrix"]
    assert exported["snapshot"]["source"] == "files"
    assert page.page()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param("--from a --kubeconfig b", "give one or the other", id="two-sources"),
        pytest.param("--from -", "standard input cannot be read again", id="standard-input"),
        pytest.param("--from not-there.json --port 0", "1 problem in the input", id="missing-file"),
        pytest.param("--from not-there.json --export x", "1 problem in the input", id="export-of-a-missing-file"),
        pytest.param("--kubeconfig not-there", "not-there", id="missing-kubeconfig"),
    ],
)
def test_source_that_cannot_be_read_is_an_error(flags: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["ui", *flags.split()])
    assert code == 2
    captured = capsys.readouterr()
    assert message in captured.err


def test_port_in_use_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "cluster.json"
    source.write_text(saved(demo_nodes(most=1)))
    with listening("127.0.0.1", 0) as taken:
        _, port = taken.getsockname()
        code = main(["ui", "--from", str(source), "--port", str(port)])
    assert code == 2
    captured = capsys.readouterr()
    assert f"cannot listen on 127.0.0.1:{port}" in captured.err


def test_invalid_port_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ui", "--port", "70000"])
    captured = capsys.readouterr()
    assert "argument --port: 70000 is too large; give 0 to 65535" in captured.err


def test_hardware_labels_lose_their_prefix() -> None:
    exported = document(snapshot(rack_nodes(1)), "files")
    node = exported.nodes["n0"]
    assert node.hardware == {
        "gpus": "8",
        "nvlink-domain": "n0",
        "state": "ok",
    }
    assert node.labels[label_keys.GPUS] == "8"
