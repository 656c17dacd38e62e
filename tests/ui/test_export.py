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
    return re.findall(rf"<{tag}\b([^>]*)>(?:(.*?)</{tag}>)?", page, re.DOTALL)


def _hostile() -> Snapshot:
    """A cluster whose texts are markup."""
    annotation = json.dumps({"version": 1, "reasons": [HOSTILE]})
    node = msgspec.structs.replace(view("n0", state="degraded"), matrix=annotation)
    condition = {
        "type": "LevelsCovered",
        "status": "False",
        "reason": HOSTILE,
        "message": HOSTILE,
    }
    nodes = [node, *rack_nodes()[1:]]
    cluster = snapshot(nodes, (), cluster_topology({"conditions": [condition]}))
    return replace(cluster, source=HOSTILE)


def test_export_runs_only_its_own_script_and_style(tmp_path: Path) -> None:
    page = export(_hostile(), "cluster", bundle(tmp_path / "b"))
    (data, text), (script, code) = _tags(page, "script")
    assert data == f' type="application/json" id="{DATA}"'
    assert script == ""
    assert code == '"use strict";\n'
    assert not {"<", ">", "&", "\u2028", "\u2029"} & set(text)
    assert msgspec.json.decode(text, type=protocol.Export).snapshot.source_name == HOSTILE

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
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest())
    return f"'sha256-{digest.decode()}'"


def test_escaped_html_means_the_same() -> None:
    assert json.loads(escaped(json.dumps({"a": HOSTILE}))) == {"a": HOSTILE}


def test_degraded_nodes_come_first_when_not_all_fit() -> None:
    nodes = (*rack_nodes(20), view("sick", state="degraded"))
    whole = document(snapshot(nodes), "cluster")
    assert len(whole.nodes) == 21
    assert whole.left_out == 0
    some = document(snapshot(nodes), "cluster", 8 << 10)
    assert next(iter(some.nodes)) == "sick"
    assert 2 <= len(some.nodes) < 20
    assert some.left_out == 21 - len(some.nodes)
    assert len(some.snapshot.nodes.name) == 21


@pytest.mark.parametrize("script", ["x = '</script>'", "x = '</SCRIPT '", "x = '<!--'"])
def test_script_that_would_end_its_own_tag_is_an_error(tmp_path: Path, script: str) -> None:
    with pytest.raises(ValueError, match="would end its tag"):
        export(_hostile(), "cluster", bundle(tmp_path / "b", script))


def test_missing_or_broken_page_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(PageNotBuiltError, match="this installation has no page"):
        export(_hostile(), "cluster", Bundle(tmp_path))
    built = bundle(tmp_path / "b")
    (tmp_path / "b" / "index.html").write_text("<html></html>")
    with pytest.raises(PageNotBuiltError, match=r"does not load app\.css and app\.js once each"):
        export(_hostile(), "cluster", built)


def test_command_writes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = bundle(tmp_path / "b")
    monkeypatch.setattr("toposcope.ui.bundle.Bundle.__init__", lambda self: setattr(self, "_folder", tmp_path / "b"))
    source, target = tmp_path / "cluster.json", tmp_path / "report.html"
    source.write_text(saved([*demo_nodes(most=3), cluster_topology()]))
    assert main(["ui", "--from", str(source), "--export", str(target)]) == 0
    assert "3 nodes" in capsys.readouterr().out
    found = json.loads(_tags(target.read_text(), "script")[0][1])
    assert sorted(found["nodes"]) == ["gb200-01", "gb200-02", "gb200-03"]
    assert found["nodes"]["gb200-01"]["matrix"]
    assert found["snapshot"]["source"] == "files"
    assert folder.page()


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
    assert main(["ui", *flags.split()]) == 2
    assert message in capsys.readouterr().err


def test_port_in_use_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "cluster.json"
    source.write_text(saved(demo_nodes(most=1)))
    with listening("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        assert main(["ui", "--from", str(source), "--port", port]) == 2
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


def test_invalid_port_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ui", "--port", "70000"])
    assert "is not a port; give a number from 0 to 65535" in capsys.readouterr().err


def test_hardware_labels_lose_their_prefix() -> None:
    found = document(snapshot(rack_nodes(1)), "files").nodes["n0"]
    assert found.hardware == {"gpus": "8", "nvlink-domain": "n0", "state": "ok"}
    assert found.labels[label_keys.GPUS] == "8"
