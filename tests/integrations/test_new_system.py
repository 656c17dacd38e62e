"""A scheduler made up on docs/maintainers/new-system.md, built from that page: one folder and one line."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import toposcope.integrations
from tests.support.api import ApiUnderTest
from tests.support.controller import make_node, make_topology, share_crd
from tests.support.paths import ROOT
from tests.support.recipe import PAGE, missing_steps
from tests.support.saved import demo_nodes, pod, saved
from tests.support.upstream_crds import stand_in
from toposcope.integrations.framework.constraints import Workload
from toposcope.integrations.framework.plugin import Plugin
from toposcope.integrations.readings import IncompleteSystemError, resource_read_for

BLOCK = re.compile(r'```(?:python|text|yaml) title="(.+?)"\n(.*?)```', re.DOTALL)
RACK = "cloud.google.com/gce-topology-subblock"
FABRICS = "/apis/slotwise.example.com/v1/fabrics"


def blocks() -> dict[str, str]:
    """The files on the page, by name."""
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def write_folder(integrations: Path) -> None:
    for name, text in blocks().items():
        if name.startswith("slotwise/"):
            path = integrations / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the made-up system in it."""
    root = tmp_path_factory.mktemp("product")
    ignored = shutil.ignore_patterns("__pycache__", "page", "node_modules")
    shutil.copytree(ROOT / "toposcope", root / "toposcope", ignore=ignored)
    integrations = root / "toposcope" / "integrations"
    write_folder(integrations)
    registry = integrations / "registry.py"
    text = registry.read_text(encoding="utf-8")
    last = '    "nccl",\n'
    assert last in text
    line = f"    {blocks()['registry.py'].strip().strip('(),')},\n"  # a formatter makes a tuple of it
    registry.write_text(text.replace(last, last + line), encoding="utf-8")
    return root


def run(program: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command of the copy."""
    command = [sys.executable, "-m", "toposcope.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(program)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=program)
    return ended.returncode, ended.stdout + ended.stderr


def gang(replicas: int, within: str = RACK) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"replicas": replicas, "within": within, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "train", "namespace": "ml", "uid": "uid-of-train"}
    return {"apiVersion": "slotwise.example.com/v1", "kind": "Gang", "metadata": metadata, "spec": spec}


def fabric(*keys: str) -> dict[str, Any]:
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    return {"apiVersion": "slotwise.example.com/v1", "kind": "Fabric", "metadata": {"name": "cluster"}, "spec": spec}


def written(path: Path, document: dict[str, Any]) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def cluster(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(saved([*demo_nodes(), pod("one", "gb200-01", 1), *objects]), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("replicas", "within", "code", "words"),
    [
        (4, RACK, 0, "fits"),
        (4, "rack", 1, f"a label key is required here: write '{RACK}'"),
        (4000, RACK, 1, "slotwise"),
    ],
)
def test_new_system_is_read_and_checked(
    program: Path, tmp_path: Path, replicas: int, within: str, code: int, words: str
) -> None:
    files = cluster(tmp_path / "cluster.json", fabric(RACK, "kubernetes.io/hostname"))
    document = written(tmp_path / "gang.json", gang(replicas, within))
    ended, output = run(program, "check", "-f", document, "--from", files)
    assert ended == code, output
    assert words.lower() in output.lower()


def test_gang_when_a_field_is_unread_is_unclear(program: Path, tmp_path: Path) -> None:
    files = cluster(tmp_path / "cluster.json", fabric(RACK, "kubernetes.io/hostname"))
    spread = gang(4)
    spread["spec"]["spread"] = {"racks": 2}
    ended, output = run(program, "check", "-f", written(tmp_path / "gang.json", spread), "--from", files)
    assert ended == 3, output
    assert "not read: spec.spread (line 1): the pods are spread over racks" in output


def test_waiting_pods_of_a_new_system_are_explained(program: Path, tmp_path: Path) -> None:
    condition = {"type": "Placed", "status": "False", "reason": "NoRoom", "message": "no rack has 4 free slots"}
    waiting = {**gang(4), "status": {"conditions": [condition]}}
    owner = {"apiVersion": waiting["apiVersion"], "kind": "Gang", "name": "train", "uid": "uid-of-train"}
    member = pod("train-0", None, 8, phase="Pending", schedulerName="slotwise")
    member["metadata"] |= {"namespace": "ml", "ownerReferences": [{**owner, "controller": True}]}
    levels = fabric(RACK, "kubernetes.io/hostname")
    files = cluster(tmp_path / "cluster.json", levels, waiting, member)
    _, output = run(program, "explain", "gang/train", "-n", "ml", "--from", files)
    assert "no rack has 4 free slots" in output
    assert "fabric.slotwise.example.com/cluster" in output


@pytest.mark.slow
def test_resource_of_a_new_system_is_published(program: Path, api: ApiUnderTest) -> None:
    share_crd(api)
    api.install_crd(stand_in("slotwise.example.com", "v1", "Fabric", "fabrics", is_namespaced=False))
    for number in range(3):
        make_node(api, f"n{number}", {RACK: f"rack-{number}"})
    make_topology(api)
    ended, output = run(program, "controller", "--once", "--kubeconfig", str(api.kubeconfig))
    assert ended == 0, output
    published = api.get(f"{FABRICS}/cluster")
    assert published["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "toposcope"}
    assert published["spec"]["levels"][0] == {"nodeLabel": RACK}


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    """The folder alone, without the steps outside of it."""
    write_folder(tmp_path)
    monkeypatch.setattr(toposcope.integrations, "__path__", [*toposcope.integrations.__path__, str(tmp_path)])
    yield importlib.import_module("toposcope.integrations.slotwise.plugin").PLUGIN
    for name in [name for name in sys.modules if name.startswith("toposcope.integrations.slotwise")]:
        del sys.modules[name]


def test_steps_that_were_left_out_are_named(plugin: Plugin) -> None:
    assert missing_steps(plugin) == [
        "Step 6: rights: the controller may not list, watch gangs.slotwise.example.com",
        "Step 6: rights: the controller may not create, delete, get, list, patch, watch fabrics.slotwise.example.com",
        "Step 6: rights: toposcope uninstall may not delete fabrics.slotwise.example.com",
        "Step 6: rights: the page may not list fabrics.slotwise.example.com",
        "Step 6: rights: no policy confines the controller's fabrics.slotwise.example.com",
        "Step 7: the resource: spec.publish has no field slotwise",
        "Step 8: documentation: no page of docs/ is about Slotwise",
        "Step 9: tests: no file of tests/integrations/ names Slotwise",
    ]


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    """A system that reads workloads and has taken no other step."""
    folder = tmp_path / "acme"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "plugin.py").write_text(
        "from toposcope.integrations.framework.plugin import Plugin\n"
        "PLUGIN = Plugin(package=__package__, name='acme', title='Acme')\n"
    )
    (folder / "workload.py").write_text("READERS = ()\n")
    monkeypatch.setattr(toposcope.integrations, "__path__", [*toposcope.integrations.__path__, str(tmp_path)])
    yield importlib.import_module("toposcope.integrations.acme.plugin").PLUGIN
    for name in [name for name in sys.modules if name.startswith("toposcope.integrations.acme")]:
        del sys.modules[name]


def test_reader_alone_lacks_its_watch_fields_docs_and_tests(acme: Plugin) -> None:
    assert missing_steps(acme) == [
        "Step 1: kinds and names: the controller watches no kind of Acme",
        "Step 2: workloads: no field_uses.yaml lists the fields of Acme",
        "Step 8: documentation: no page of docs/ is about Acme",
        "Step 9: tests: no file of tests/integrations/ names Acme",
    ]


def test_reader_that_declares_no_resource_names_its_step() -> None:
    workload = Workload(system="Acme", handle="gang/train", groups=(), topology="cluster")
    with pytest.raises(IncompleteSystemError, match=r"no reader called Acme .* take step 2 of docs/maintainers/"):
        resource_read_for(workload)
