"""`toposcope export` from the user's side: files in, a system's own form out, notes and mistakes on standard error."""

import io
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from tests.cli.clusters import HOST, empty, gaps, hgx, lacking, plain
from tests.cli.conftest import Command, CommandOnCluster, Write
from tests.support.api import NODES, ApiUnderTest, node
from tests.support.saved import demo_nodes

LEVELS = [
    {"domain": "zone", "key": "topology.kubernetes.io/zone"},
    {"domain": "block", "key": "cloud.google.com/gce-topology-block"},
    {"domain": "rack", "key": "cloud.google.com/gce-topology-subblock"},
    {"domain": "nvlink-domain", "key": "gpu.topology/nvlink-domain"},
    {"domain": "host", "key": "kubernetes.io/hostname"},
]
NODE_LABELS = [{"nodeLabel": level["key"]} for level in LEVELS]


@pytest.mark.regression
def test_grove_gets_a_cluster_topology_binding(toposcope_on: CommandOnCluster) -> None:
    binding = toposcope_on(plain, "export --format grove").yaml
    assert binding["apiVersion"] == "grove.io/v1alpha1"
    assert binding["kind"] == "ClusterTopologyBinding"
    assert binding["metadata"] == {"name": "cluster"}
    assert binding["spec"] == {"levels": LEVELS}


@pytest.mark.regression
def test_kai_gets_a_topology(toposcope_on: CommandOnCluster) -> None:
    topology = toposcope_on(plain, "export --format kai").yaml
    assert topology["apiVersion"] == "kai.scheduler/v1alpha1"
    assert topology["spec"] == {"levels": NODE_LABELS}


@pytest.mark.regression
def test_kai_gets_aliases(toposcope_on: CommandOnCluster) -> None:
    topology = toposcope_on(plain, "export --format kai --variant aliases").yaml
    assert topology["spec"]["levels"] == [{"alias": level["domain"], "nodeLabel": level["key"]} for level in LEVELS]


@pytest.mark.regression
def test_kueue_gets_a_topology(toposcope_on: CommandOnCluster) -> None:
    topology = toposcope_on(plain, "export --format kueue").yaml
    assert topology["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert topology["spec"] == {"levels": NODE_LABELS}


@pytest.mark.regression
def test_helm_chart_of_grove_gets_levels_in_its_values(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format helm-grove --variant alpha.4 --without nvlink-domain")
    scheduling = ran.yaml["config"]["topologyAwareScheduling"]
    assert scheduling["enabled"] is True
    assert scheduling["levels"] == [level for level in LEVELS if level["domain"] != "nvlink-domain"]


@pytest.mark.regression
def test_grove_before_alpha_9_needs_levels_left_out(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format grove --variant clustertopology", code=1)
    assert ran.out == ""
    assert "level 'nvlink-domain': Grove before v0.1.0-alpha.9 has only" in ran.err
    assert "--without" in ran.err


@pytest.mark.regression
def test_runai_gets_its_cluster_id(toposcope_on: CommandOnCluster) -> None:
    topology = toposcope_on(plain, "export --format runai --cluster-id c-1 --name gpu-pool").json
    assert topology["name"] == "gpu-pool"
    assert topology["clusterId"] == "c-1"
    assert topology["levels"][4] == "kubernetes.io/hostname"


@pytest.mark.regression
def test_runai_without_cluster_id_is_incomplete(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format runai")
    assert '"name": "cluster"' in ran.out
    assert '"clusterId"' not in ran.out + ran.err
    assert "clusterId is missing: give --cluster-id" in ran.err


@pytest.mark.regression
def test_osmo_gets_keys_of_a_pool(toposcope_on: CommandOnCluster) -> None:
    pool = toposcope_on(plain, "export --format osmo").json
    assert pool["topology_keys"][2] == {"key": "rack", "label": "cloud.google.com/gce-topology-subblock"}


@pytest.mark.regression
def test_node_that_lacks_a_level_falls_out_of_the_topology(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(lacking, "export --format kai").err
    assert "1 of 30 nodes lacks level rack and falls out of the topology: h200-1" in err


# Slurm


@pytest.mark.regression
def test_slurm_leaves_out_a_node_that_lacks_a_level(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(lacking, "export --format slurm --variant tree")
    assert "SwitchName=rack-3 Nodes=h200-[2-4]" in ran.out
    assert "1 node is left out (lacks a level): h200-1" in ran.err


@pytest.mark.regression
def test_slurm_gets_a_tree_and_blocks(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format slurm")
    tree, blocks = ran.yaml[:2]
    assert tree["topology"] == "cluster-tree"
    assert "switch: rack-3" in ran.out
    assert "children: nvlink-domain-h200-[1-4]" in ran.out
    assert blocks["block"]["block_sizes"] == [18]
    assert blocks["block"]["blocks"][0]["nodes"] == "gb200-[01-18]"
    assert "12 nodes are left out (in no block" in ran.err
    assert "use the same ones in slurm.conf, or under Slinky its annotation" in ran.err


@pytest.mark.regression
def test_slurm_without_levels_gets_one_switch(toposcope_on: CommandOnCluster) -> None:
    line = "export --format slurm --without zone --without block --without rack --without nvlink-domain"
    ran = toposcope_on(plain, line)
    assert ran.yaml[0]["tree"]["switches"] == [{"switch": "root", "nodes": "gb200-[01-18],h200-[1-8],l40s-[1-4]"}]
    assert "no topology/block: no level has two nodes in a domain" in ran.err


@pytest.mark.regression
def test_slurm_conf_gets_a_tree(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(plain, "export --format slurm --variant tree").out
    assert "# Topology cluster; slurm.conf needs TopologyPlugin=topology/tree\n" in out
    assert "\nSwitchName=zone-1 Switches=block-[1-2]\n" in out


@pytest.mark.regression
def test_slurm_conf_gets_blocks(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(plain, "export --format slurm --variant block --level rack").out
    assert out.splitlines()[-5:] == [
        "BlockName=rack-1 Nodes=gb200-[01-18]",
        "BlockName=rack-2 Nodes=l40s-[1-4]",
        "BlockName=rack-3 Nodes=h200-[1-4]",
        "BlockName=rack-4 Nodes=h200-[5-8]",
        "BlockSizes=4,8",
    ]


@pytest.mark.regression
def test_slurm_conf_gets_blocks_of_a_size(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format slurm --variant block --level rack --block-size 16")
    assert "/block\nBlockName=rack-1 Nodes=gb200-[01-18]\nBlockSizes=16\n" in ran.out
    assert "12 nodes are left out" in ran.err


@pytest.mark.regression
def test_slurm_conf_is_written_into_a_file(toposcope_on: CommandOnCluster, folder: Path) -> None:
    ran = toposcope_on(plain, "export --format slurm --variant tree -o topology.conf")
    assert ran.out == ""
    assert "SwitchName=zone-1 Switches=block-[1-2]\n" in (folder / "topology.conf").read_text()


# NCCL


def test_nccl_gets_the_hardware_of_a_node(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(plain, "export --format nccl --node h200-1 --pcie-gen 5")
    root = ET.fromstring(ran.out)  # noqa: S314 - our own text
    first, second = root
    assert first.get("numaid") == "0"
    assert first.get("arch") == "x86_64"
    assert second.get("numaid") == "1"
    assert second.get("arch") == "x86_64"
    gpus = list(root.iter("gpu"))
    assert len(gpus) == 8
    assert "unknown: addresses of PCI switches" in ran.err


@pytest.mark.regression
def test_nccl_needs_the_annotation_of_an_agent(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(gaps, "export --format nccl --node new-1", code=1).err
    assert "has no annotation gpu.topology/matrix: its agent has not run" in err


@pytest.mark.regression
def test_nccl_of_a_missing_node_is_an_error(toposcope_on: CommandOnCluster) -> None:
    missing = toposcope_on(gaps, "export --format nccl --node h200-99", code=2).err
    assert "there is no node 'h200-99' in " in missing
    assert "did you mean 'h200-" in missing


# What cannot be exported


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        pytest.param("kai -o no/where", 2, "where: No such file or directory", id="missing-folder"),
        pytest.param(
            "kai --without spine",
            2,
            "--without spine: no such level; the levels are: zone > block",
            id="level-left-out",
        ),
        pytest.param("slurm --level racks", 2, "there is no level 'racks'", id="level"),
        pytest.param("slurm --variant block --level rack --block-size 19", 1, "no rack has 19 nodes", id="block-size"),
    ],
)
def test_export_of_what_is_not_there_is_an_error(
    flags: str, code: int, message: str, toposcope_on: CommandOnCluster
) -> None:
    assert message in toposcope_on(plain, f"export --format {flags}", code=code).err


@pytest.mark.regression
@pytest.mark.parametrize(
    ("form", "message"),
    [
        pytest.param("kai", "there are no levels to write", id="kai"),
        pytest.param("slurm", "there are no nodes", id="slurm"),
    ],
)
def test_export_of_an_empty_cluster_is_an_error(form: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(empty, f"export --format {form}", code=1).err


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param("kai --variant v9", "--variant v9: kai has plain, aliases", id="variant"),
        pytest.param("nccl", "--format nccl needs --node", id="without-node"),
        pytest.param("slurm --convert x", "slurm needs nodes", id="convert"),
        pytest.param("slurm --block-size 0", "0 is too small; give 1 or more", id="block-size"),
        pytest.param("flux", "invalid choice: 'flux'", id="format"),
    ],
)
def test_wrong_flag_of_export_is_named(flags: str, message: str, toposcope: Command) -> None:
    assert message in toposcope(f"export --format {flags}", code=2).err


# Conversion


@pytest.mark.regression
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [", "line 2: not YAML", id="no-yaml"),
        pytest.param("apiVersion: v1\nkind: Node\n", "kind 'Node' of group '' is not a topology", id="another-kind"),
        pytest.param("- 1", "this is not a topology but a list", id="list"),
        pytest.param("", "this is not a topology but a NoneType", id="empty"),
        pytest.param("\0\x01", "not YAML", id="binary"),
        pytest.param(
            '{"levels": [1], "name": "x"}', "Expected `str`, got `int` - at `levels[0]`", id="level-of-another-type"
        ),
        pytest.param(
            "topology_keys: {}", "Expected `array`, got `object` - at `topology_keys`", id="keys-of-another-type"
        ),
    ],
)
def test_text_that_is_no_topology_is_not_converted(text: str, message: str, write: Write, toposcope: Command) -> None:
    write("topology.yaml", text)
    ran = toposcope("export --format kai --convert topology.yaml", code=2)
    assert ran.out == ""
    assert message in ran.err


def test_topologies_of_grove_kai_and_osmo_convert_into_each_other(
    toposcope_on: CommandOnCluster, toposcope: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toposcope_on(plain, "export --format grove -o grove.yaml")
    toposcope_on(plain, "export --format kai --variant aliases -o kai.yaml")
    toposcope_on(plain, "export --format osmo -o osmo.json")
    from_grove = toposcope("export --format grove --convert grove.yaml").out
    assert toposcope("export --format grove --convert kai.yaml").out == from_grove
    assert toposcope("export --format grove --convert osmo.json").out == from_grove

    standard_input = SimpleNamespace(buffer=io.BytesIO((folder / "kai.yaml").read_bytes()))
    monkeypatch.setattr("sys.stdin", standard_input)
    assert toposcope("export --format grove --convert -").out == from_grove


def test_running_cluster_exports_what_saved_objects_do(
    api: ApiUnderTest, toposcope_on: CommandOnCluster, toposcope: Command
) -> None:
    for saved_node in demo_nodes():
        metadata = {part: saved_node["metadata"][part] for part in ("name", "labels", "annotations")}
        api.create(NODES, node(**metadata))
    for flags in ("grove", "slurm", "nccl --node h200-1"):
        from_files = toposcope_on(plain, f"export --format {flags}").out
        from_cluster = toposcope(f"export --format {flags} --kubeconfig {api.kubeconfig}").out
        assert from_cluster == from_files


@pytest.mark.regression
def test_kueue_gets_no_level_of_own_names_at_the_top(toposcope_on: CommandOnCluster) -> None:
    """Kueue 0.14 to 0.19.0 ignores each node whose hostname is the value of the first level."""
    ran = toposcope_on(hgx, "export --format kueue")
    assert ran.yaml["spec"] == {"levels": [{"nodeLabel": HOST}]}
    assert "level nvlink-domain (gpu.topology/nvlink-domain) is left out: it is each node's own name" in ran.err
    grove = toposcope_on(hgx, "export --format grove").yaml
    assert [level["domain"] for level in grove["spec"]["levels"]] == ["nvlink-domain", "host"]
