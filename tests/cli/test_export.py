"""`toposcope export` from the user's side: files in, a system's own form out, notes and mistakes on standard error."""

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Command, write_cluster
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.saved import Object, cluster_topology, demo_nodes
from tests.support.tables import each_case

PATH = ["zone", "block", "rack", "nvlink-domain", "host"]
RACK = "cloud.google.com/gce-topology-subblock"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_cluster(tmp_path_factory.mktemp("saved") / "demo.json", *demo_nodes(), cluster_topology())


@pytest.fixture
def export(demo: str, toposcope: Command) -> Command:
    return partial(toposcope, f"export --from {demo} --format")


def changed(tmp_path: Path, change: Callable[[Object], None]) -> str:
    nodes = demo_nodes()
    for saved_node in nodes:
        change(saved_node)
    return write_cluster(tmp_path / "changed.json", *nodes)


def test_grove_kai_and_kueue_are_ready_to_apply(export: Command) -> None:
    binding = export("grove").yaml
    assert (binding["apiVersion"], binding["kind"]) == ("grove.io/v1alpha1", "ClusterTopologyBinding")
    assert binding["metadata"] == {"name": "cluster"}
    assert [level["domain"] for level in binding["spec"]["levels"]] == PATH
    keys = [level["key"] for level in binding["spec"]["levels"]]
    for form, version in (("kai", "kai.scheduler/v1alpha1"), ("kueue", "kueue.x-k8s.io/v1beta2")):
        topology = export(form).yaml
        assert topology["apiVersion"] == version
        assert topology["spec"] == {"levels": [{"nodeLabel": key} for key in keys]}


def test_variants(export: Command) -> None:
    assert [level["alias"] for level in export("kai --variant aliases").yaml["spec"]["levels"]] == PATH
    scheduling = export("helm-grove --variant alpha.4 --without nvlink-domain").yaml["config"][
        "topologyAwareScheduling"
    ]
    assert scheduling["enabled"] is True
    assert [level["domain"] for level in scheduling["levels"]] == ["zone", "block", "rack", "host"]


def test_runai_asks_for_its_cluster_id(export: Command) -> None:
    found = export("runai --cluster-id c-1 --name gpu-pool").json
    assert (found["name"], found["clusterId"], len(found["levels"])) == ("gpu-pool", "c-1", 5)
    printed = export("runai")
    assert "clusterId" not in printed.json
    assert "clusterId is missing: give --cluster-id" in printed.err


def test_osmo_gets_its_keys(export: Command) -> None:
    keys = export("osmo").json["topology_keys"]
    assert keys[2] == {"key": "rack", "label": RACK}


def test_what_a_format_cannot_hold_is_an_answer_and_a_reason(export: Command) -> None:
    printed = export("grove --variant clustertopology", code=1)
    assert printed.out == ""
    assert "level 'nvlink-domain': Grove before v0.1.0-alpha.9 knows" in printed.err
    assert "--without" in printed.err


def test_nodes_that_fall_out_are_named(tmp_path: Path, toposcope: Command) -> None:
    def lose(found: Object) -> None:
        if found["metadata"]["name"] == "h200-1":
            del found["metadata"]["labels"][RACK]

    file = changed(tmp_path, lose)
    own = tmp_path / "own.json"
    levels = [{"domain": "rack", "key": RACK}, {"domain": "host", "key": "kubernetes.io/hostname"}]
    own.write_text(json.dumps(cluster_topology(levels=levels)))
    error = toposcope(f"export --format kai --from {file} --from {own}").err
    assert "1 of 30 nodes lacks level rack and falls out of the topology: h200-1" in error
    printed = toposcope(f"export --format slurm --variant tree --from {file} --from {own}")
    assert "1 node is left out (lacks a level): h200-1" in printed.err
    assert "SwitchName=rack-3 Nodes=h200-[2-4]" in printed.out


def test_slurm_in_three_forms(export: Command) -> None:
    printed = export("slurm")
    trees, groups = printed.yaml
    assert trees["topology"] == "cluster-tree"
    assert {"switch": "rack-3", "children": "nvlink-domain-h200-[1-4]"} in trees["tree"]["switches"]
    assert groups["block"]["block_sizes"] == [18]
    assert groups["block"]["blocks"][0]["nodes"] == "gb200-[01-18]"
    assert "12 nodes are left out (in no block" in printed.err
    lines = export("slurm --variant tree").out.splitlines()
    assert lines[0] == "# Topology cluster; slurm.conf needs TopologyPlugin=topology/tree"
    assert lines[-1] == "SwitchName=zone-1 Switches=block-[1-2]"
    assert export("slurm --variant block --level rack").out.splitlines()[1:] == [
        "BlockName=rack-1 Nodes=gb200-[01-18]",
        "BlockName=rack-2 Nodes=l40s-[1-4]",
        "BlockName=rack-3 Nodes=h200-[1-4]",
        "BlockName=rack-4 Nodes=h200-[5-8]",
        "BlockSizes=4,8",
    ]


def test_a_block_size_leaves_smaller_domains_out(export: Command) -> None:
    printed = export("slurm --variant block --level rack --block-size 16")
    assert printed.out.splitlines()[1:] == ["BlockName=rack-1 Nodes=gb200-[01-18]", "BlockSizes=16"]
    assert "12 nodes are left out" in printed.err
    assert "no rack has 19 nodes" in export("slurm --variant block --level rack --block-size 19", code=1).err


def test_without_domains_of_two_nodes_slurm_gets_the_tree_alone(export: Command) -> None:
    without = [word for level in PATH[:-1] for word in ("--without", level)]
    printed = export("slurm", *without)
    (only,) = printed.yaml
    assert only["tree"]["switches"] == [{"switch": "root", "nodes": "gb200-[01-18],h200-[1-8],l40s-[1-4]"}]
    assert "no topology/block: no level puts two nodes together" in printed.err


def test_nccl_of_one_node(export: Command) -> None:
    printed = export("nccl --node h200-1 --pcie-gen 5")
    root = ET.fromstring(printed.out)  # noqa: S314 - our own text
    assert [cpu.get("numaid") for cpu in root] == ["0", "1"]
    assert len(list(root.iter("gpu"))) == 8
    assert {cpu.get("arch") for cpu in root} == {"x86_64"}
    assert "not known: addresses of PCI switches" in printed.err


def test_a_node_without_its_matrix(tmp_path: Path, toposcope: Command) -> None:
    def forget(found: Object) -> None:
        found["metadata"]["annotations"].pop("gpu.topology/matrix", None)

    file = changed(tmp_path, forget)
    error = toposcope(f"export --format nccl --from {file} --node h200-1", code=1).err
    assert "has no annotation gpu.topology/matrix: its agent has not run" in error
    assert "there is no node 'h200-99'" in toposcope(f"export --format nccl --from {file} --node h200-99", code=2).err


def test_a_file_is_written(export: Command, tmp_path: Path) -> None:
    file = tmp_path / "topology.conf"
    assert export(f"slurm --variant tree -o {file}").out == ""
    assert file.read_text().endswith("SwitchName=zone-1 Switches=block-[1-2]\n")
    assert "where: No such file or directory" in export(f"kai -o {tmp_path / 'no' / 'where'}", code=2).err


def test_one_form_is_converted_into_another(
    export: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toposcope: Command
) -> None:
    forms = {"grove": (), "kai": ("--variant", "aliases"), "osmo": ()}
    expected = None
    for form, variant in forms.items():
        file = tmp_path / form
        export(form, *variant, "-o", str(file))
        printed = toposcope(f"export --format grove --convert {file}").out
        expected = expected or printed
        assert printed == expected
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / "kai").read_bytes())))
    assert toposcope("export --format grove --convert -").out == expected


@each_case("tables/cli.yaml")
def test_bad_files_are_reported_and_nothing_is_written(
    text: str, words: str, tmp_path: Path, toposcope: Command
) -> None:
    file = tmp_path / "bad"
    file.write_text(text)
    printed = toposcope(f"export --format kai --convert {file}", code=2)
    assert words in printed.err
    assert printed.out == ""


@each_case("tables/cli.yaml")
def test_wrong_usage(arguments: str, words: str, toposcope: Command) -> None:
    assert words in toposcope("export", arguments, code=2).err


def test_levels_that_are_not_there(export: Command) -> None:
    assert "--without spine: no such level; the levels are: zone > block" in export("kai --without spine", code=2).err
    assert "there is no level 'racks'" in export("slurm --level racks", code=2).err


def test_a_file_without_nodes_has_nothing_to_write(tmp_path: Path, toposcope: Command) -> None:
    file = write_cluster(tmp_path / "empty.json")
    assert "there is no level that could be written" in toposcope(f"export --format kai --from {file}", code=1).err
    assert "there is no node" in toposcope(f"export --format slurm --from {file}", code=1).err


def test_a_live_cluster_gives_what_its_saved_objects_give(
    api: ApiUnderTest, export: Command, toposcope: Command
) -> None:
    for saved_node in demo_nodes():
        api.create(NODES, node(**{part: saved_node["metadata"][part] for part in ("name", "labels", "annotations")}))
    for arguments in (["grove"], ["slurm"], ["nccl", "--node", "h200-1"]):
        from_files = export(*arguments).out
        assert toposcope("export --format", *arguments, "--kubeconfig", str(api.kubeconfig)).out == from_files
