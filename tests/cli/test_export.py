"""`toposcope export` from the user's side: files in, a system's own form out, notes and mistakes on standard error."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.support.api import NODES, ApiUnderTest, node
from tests.support.saved import Object, cluster_topology, demo_nodes, saved
from toposcope.cli.main import main

Export = Callable[..., int]
PATH = ["zone", "block", "rack", "nvlink-domain", "host"]
RACK = "cloud.google.com/gce-topology-subblock"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("saved") / "demo.json"
    file.write_text(saved([*demo_nodes(), cluster_topology()]))
    return file


@pytest.fixture
def export(demo: Path) -> Export:
    def run(form: str, *arguments: str) -> int:
        return main(["export", "--format", form, "--from", str(demo), *arguments])

    return run


def changed(tmp_path: Path, change: Callable[[Object], None]) -> Path:
    nodes = demo_nodes()
    for found in nodes:
        change(found)
    file = tmp_path / "changed.json"
    file.write_text(saved(nodes))
    return file


def test_grove_kai_and_kueue_are_ready_to_apply(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("grove") == 0
    binding = yaml.safe_load(capsys.readouterr().out)
    assert (binding["apiVersion"], binding["kind"]) == ("grove.io/v1alpha1", "ClusterTopologyBinding")
    assert binding["metadata"] == {"name": "cluster"}
    assert [level["domain"] for level in binding["spec"]["levels"]] == PATH
    keys = [level["key"] for level in binding["spec"]["levels"]]
    for form, version in (("kai", "kai.scheduler/v1alpha1"), ("kueue", "kueue.x-k8s.io/v1beta2")):
        assert export(form) == 0
        topology = yaml.safe_load(capsys.readouterr().out)
        assert topology["apiVersion"] == version
        assert topology["spec"] == {"levels": [{"nodeLabel": key} for key in keys]}


def test_variants(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("kai", "--variant", "aliases") == 0
    assert [level["alias"] for level in yaml.safe_load(capsys.readouterr().out)["spec"]["levels"]] == PATH
    assert export("helm-grove", "--variant", "alpha.4", "--without", "nvlink-domain") == 0
    scheduling = yaml.safe_load(capsys.readouterr().out)["config"]["topologyAwareScheduling"]
    assert scheduling["enabled"] is True
    assert [level["domain"] for level in scheduling["levels"]] == ["zone", "block", "rack", "host"]


def test_runai_asks_for_its_cluster_id(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("runai", "--cluster-id", "c-1", "--name", "gpu-pool") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["clusterId"], len(found["levels"])) == ("gpu-pool", "c-1", 5)
    assert export("runai") == 0
    printed = capsys.readouterr()
    assert "clusterId" not in json.loads(printed.out)
    assert "clusterId is missing: give --cluster-id" in printed.err


def test_osmo_gets_its_keys(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("osmo") == 0
    keys = json.loads(capsys.readouterr().out)["topology_keys"]
    assert keys[2] == {"key": "rack", "label": RACK}


def test_what_a_format_cannot_hold_is_an_answer_and_a_reason(
    export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("grove", "--variant", "clustertopology") == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "level 'nvlink-domain': Grove before v0.1.0-alpha.9 knows" in printed.err
    assert "--without" in printed.err


def test_nodes_that_fall_out_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def lose(found: Object) -> None:
        if found["metadata"]["name"] == "h200-1":
            del found["metadata"]["labels"][RACK]

    file = changed(tmp_path, lose)
    own = tmp_path / "own.json"
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": "kubernetes.io/hostname"}]
    own.write_text(json.dumps(cluster_topology(levels=levels)))
    assert main(["export", "--format", "kai", "--from", str(file), "--from", str(own)]) == 0
    assert "1 of 30 nodes lacks level rack and falls out of the topology: h200-1" in capsys.readouterr().err
    assert main(["export", "--format", "slurm", "--variant", "tree", "--from", str(file), "--from", str(own)]) == 0
    printed = capsys.readouterr()
    assert "1 node is left out (lacks a level): h200-1" in printed.err
    assert "SwitchName=rack-3 Nodes=h200-[2-4]" in printed.out


def test_slurm_in_three_forms(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("slurm") == 0
    printed = capsys.readouterr()
    trees, groups = yaml.safe_load(printed.out)
    assert trees["topology"] == "cluster-tree"
    assert {"switch": "rack-3", "children": "nvlink-domain-h200-[1-4]"} in trees["tree"]["switches"]
    assert groups["block"]["block_sizes"] == [18]
    assert groups["block"]["blocks"][0]["nodes"] == "gb200-[01-18]"
    assert "12 nodes are left out (in no block" in printed.err
    assert export("slurm", "--variant", "tree") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# Topology cluster; slurm.conf needs TopologyPlugin=topology/tree"
    assert lines[-1] == "SwitchName=zone-1 Switches=block-[1-2]"
    assert export("slurm", "--variant", "block", "--level", "rack") == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "BlockName=rack-1 Nodes=gb200-[01-18]",
        "BlockName=rack-2 Nodes=l40s-[1-4]",
        "BlockName=rack-3 Nodes=h200-[1-4]",
        "BlockName=rack-4 Nodes=h200-[5-8]",
        "BlockSizes=4,8",
    ]


def test_a_block_size_leaves_smaller_domains_out(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("slurm", "--variant", "block", "--level", "rack", "--block-size", "16") == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:] == ["BlockName=rack-1 Nodes=gb200-[01-18]", "BlockSizes=16"]
    assert "12 nodes are left out" in printed.err
    assert export("slurm", "--variant", "block", "--level", "rack", "--block-size", "19") == 1
    assert "no rack has 19 nodes" in capsys.readouterr().err


def test_without_domains_of_two_nodes_slurm_gets_the_tree_alone(
    export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    without = [word for level in PATH[:-1] for word in ("--without", level)]
    assert export("slurm", *without) == 0
    printed = capsys.readouterr()
    (only,) = yaml.safe_load(printed.out)
    assert only["tree"]["switches"] == [{"switch": "root", "nodes": "gb200-[01-18],h200-[1-8],l40s-[1-4]"}]
    assert "no topology/block: no level puts two nodes together" in printed.err


def test_nccl_of_one_node(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("nccl", "--node", "h200-1", "--pcie-gen", "5") == 0
    printed = capsys.readouterr()
    root = ET.fromstring(printed.out)  # noqa: S314 - our own text
    assert [cpu.get("numaid") for cpu in root] == ["0", "1"]
    assert len(list(root.iter("gpu"))) == 8
    assert {cpu.get("arch") for cpu in root} == {"x86_64"}
    assert "not known: addresses of PCI switches" in printed.err


def test_a_node_without_its_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def forget(found: Object) -> None:
        found["metadata"]["annotations"].pop("gpu.topology/matrix", None)

    file = changed(tmp_path, forget)
    assert main(["export", "--format", "nccl", "--from", str(file), "--node", "h200-1"]) == 1
    assert "has no annotation gpu.topology/matrix: its agent has not run" in capsys.readouterr().err
    assert main(["export", "--format", "nccl", "--from", str(file), "--node", "h200-99"]) == 2
    assert "there is no node 'h200-99'" in capsys.readouterr().err


def test_a_file_is_written(export: Export, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "topology.conf"
    assert export("slurm", "--variant", "tree", "-o", str(file)) == 0
    assert capsys.readouterr().out == ""
    assert file.read_text().endswith("SwitchName=zone-1 Switches=block-[1-2]\n")
    assert export("kai", "-o", str(tmp_path / "no" / "where")) == 2
    assert "where: No such file or directory" in capsys.readouterr().err


def test_one_form_is_converted_into_another(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forms = {"grove": (), "kai": ("--variant", "aliases"), "osmo": ()}
    expected = None
    for form, variant in forms.items():
        file = tmp_path / form
        assert export(form, *variant, "-o", str(file)) == 0
        capsys.readouterr()
        assert main(["export", "--format", "grove", "--convert", str(file)]) == 0
        printed = capsys.readouterr().out
        expected = expected or printed
        assert printed == expected
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / "kai").read_bytes())))
    assert main(["export", "--format", "grove", "--convert", "-"]) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "line 2: not YAML"),
        ("apiVersion: v1\nkind: Node\n", "no topology is known by kind 'Node' of group ''"),
        ("- 1", "this is no topology but a list"),
        ("", "this is no topology but a NoneType"),
        ("\x00\x01", "not YAML"),
        ('{"levels": [1], "name": "x"}', "Expected `str`, got `int` - at `levels[0]`"),
        ("topology_keys: {}", "Expected `array`, got `object` - at `topology_keys`"),
    ],
)
def test_bad_files_are_told_and_nothing_is_written(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad"
    file.write_text(text)
    assert main(["export", "--format", "kai", "--convert", str(file)]) == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "kai", "--variant", "v9"], "--variant v9: kai has plain, aliases"),
        (["--format", "nccl"], "--format nccl needs --node"),
        (["--format", "slurm", "--convert", "x"], "slurm needs nodes"),
        (["--format", "slurm", "--block-size", "0"], "'0' is not a number of nodes"),
        (["--format", "flux"], "invalid choice: 'flux'"),
    ],
)
def test_wrong_usage(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["export", *arguments])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_levels_that_are_not_there(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    assert export("kai", "--without", "spine") == 2
    assert "--without spine: no such level; the levels are: zone > block" in capsys.readouterr().err
    assert export("slurm", "--level", "racks") == 2
    assert "there is no level 'racks'" in capsys.readouterr().err


def test_a_file_without_nodes_has_nothing_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "empty.json"
    file.write_text(saved([]))
    assert main(["export", "--format", "kai", "--from", str(file)]) == 1
    assert "there is no level that could be written" in capsys.readouterr().err
    assert main(["export", "--format", "slurm", "--from", str(file)]) == 1
    assert "there is no node" in capsys.readouterr().err


def test_a_live_cluster_gives_what_its_saved_objects_give(
    api: ApiUnderTest, export: Export, capsys: pytest.CaptureFixture[str]
) -> None:
    for found in demo_nodes():
        metadata = {part: found["metadata"][part] for part in ("labels", "annotations")}
        api.create(NODES, node(found["metadata"]["name"], **metadata))
    for arguments in (["grove"], ["slurm"], ["nccl", "--node", "h200-1"]):
        assert export(*arguments) == 0
        from_files = capsys.readouterr().out
        assert main(["export", "--format", *arguments, "--kubeconfig", str(api.kubeconfig)]) == 0
        assert capsys.readouterr().out == from_files
