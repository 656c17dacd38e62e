"""`toposcope tree`: the hierarchy of a cluster, its GPUs, and what is wrong in it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.clusters import RACK, busy_cpus, counted, demo, gaps, holes, tainted, tolerated, uncounted
from tests.cli.conftest import Command, CommandOnCluster, Save, Write, requests_to, write_cluster
from tests.support.api import NODES, ApiUnderTest
from tests.support.pages import expected_page
from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.manifests import cluster_topology_crd

PATHS_DOWN_TO_RACKS = [
    "zone-1",
    "zone-1/block-1",
    "zone-1/block-1/rack-1",
    "zone-1/block-1/rack-2",
    "zone-1/block-2",
    "zone-1/block-2/rack-3",
    "zone-1/block-2/rack-4",
]


@pytest.mark.regression
def test_tree_of_the_demo_is_its_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, "tree", code=1)
    assert ran.out == expected_page("cli/pages/tree.txt", ran.out)


@pytest.mark.regression
@pytest.mark.parametrize(
    "line", ["tree cluster --level rack -o name", "tree --depth 3 -o name"], ids=["level", "depth"]
)
def test_tree_names_domains_by_their_paths(line: str, toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, line, code=1)
    assert ran.out.split() == PATHS_DOWN_TO_RACKS


@pytest.mark.regression
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_tree_for_scripts_counts_nodes_and_gpus(form: str, toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(demo, f"tree --depth 2 -o {form}", code=1)
    tree = ran.yaml
    assert tree["topology"] == "cluster"
    assert tree["origin"] == "observed"
    assert tree["nodes"] == 30
    assert tree["gpus"] == 152
    assert tree["freeGpus"] == 104
    assert tree["marks"] == {"degraded": 1}
    assert tree["domains"][0]["domains"][0] == {
        "level": "block",
        "value": "block-1",
        "nodes": 22,
        "gpus": 88,
        "freeGpus": 40,
    }
    assert "leftOut" not in ran.out
    assert "withoutAgent" not in ran.out


@pytest.mark.regression
def test_tree_for_scripts_counts_gpus_of_nodes_that_lack_a_level(toposcope_on: CommandOnCluster) -> None:
    tree = toposcope_on(gaps, "tree -o json", code=1).json
    assert tree["withoutAgent"] == {"nodes": ["new-1", "old-1"], "gpus": 16}
    assert tree["nodes"] == 30
    assert tree["gpus"] == 152
    assert tree["leftOut"] == {"nodes": 2, "gpus": 16}
    zone = tree["domains"][0]
    block = zone["domains"][1]
    assert block["gpus"] == 64
    assert block["lacking"] == {
        "level": "rack",
        "nodes": ["h200-1", "h200-4"],
        "gpus": 16,
    }


@pytest.mark.regression
def test_tree_shows_nodes_without_agent_and_nodes_that_lack_a_level(toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(gaps, "tree", code=1).out
    assert (
        "! not counted: 2 nodes with 16 GPUs have no label gpu.topology/gpus: new-1, old-1; is the agent's DaemonSet"
        in out
    )
    assert f"2 nodes lack rack ({RACK}): h200-1, h200-4      2    16     -\n" in out
    assert "! of these, 2 nodes with 16 GPUs lack a level: KAI and Kueue leave them out" in out


@pytest.mark.regression
@pytest.mark.parametrize("level", ["rack", RACK])
def test_level_that_few_nodes_lack_is_refused_with_the_reason(level: str, toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(holes, f"tree --level {level}", code=2).err
    assert (
        f"there is no level '{level}', because 2 of 30 nodes lack {RACK} and at least 29 must carry it; "
        "lacking: gb200-01, gb200-02; the levels are: zone > block > nvlink-domain > host"
    ) in err


@pytest.mark.regression
def test_summary_of_a_large_cluster_is_its_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(counted, "tree --summary", code=1)
    assert ran.out == expected_page("cli/pages/summary.txt", ran.out)


@pytest.mark.regression
def test_summary_for_scripts_comes_from_the_status(toposcope_on: CommandOnCluster) -> None:
    summary = toposcope_on(counted, "tree --summary -o json", code=1).json
    assert summary["origin"] == "status"
    assert summary["nodes"] == 100000
    assert summary["gpus"] == 600000
    assert summary["levels"][1] == {
        "domain": "rack",
        "key": "r",
        "domains": 9091,
        "nodes": 99998,
        "missing": 2,
        "available": True,
    }


@pytest.mark.regression
def test_summary_needs_the_counts_of_a_controller(toposcope_on: CommandOnCluster) -> None:
    err = toposcope_on(uncounted, "tree --summary", code=2).err
    assert "no controller has written its counts yet; run it without --summary" in err


@pytest.mark.regression
@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("tree cluste", "no ClusterTopology 'cluste' (did you mean 'cluster'?)", id="topology"),
        pytest.param("tree --level racks", "did you mean 'rack'?", id="level"),
        pytest.param("tree --kubeconfig x", "give one or the other", id="two-sources"),
    ],
)
def test_tree_of_what_is_not_there_is_an_error(line: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(demo, line, code=2).err


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
def test_tree_of_a_missing_file_is_an_error(toposcope: Command) -> None:
    assert "/no/such/file: No such file or directory" in toposcope("tree --from /no/such/file", code=2).err


@pytest.mark.regression
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("tree --depth -1", "--depth -1: must not be negative", id="depth"),
        pytest.param("tree --depth 1 --level x", "--level: not allowed with argument --depth", id="depth-and-level"),
        pytest.param(
            "tree --request-timeout soon",
            "argument --request-timeout: 'soon' is not a time such as 5s, 2m or 1h; 0",
            id="timeout",
        ),
    ],
)
def test_wrong_flag_of_tree_is_named(line: str, message: str, toposcope: Command) -> None:
    assert message in toposcope(line, code=2).err


@pytest.mark.regression
def test_tree_marks_a_taint_of_an_admin(toposcope_on: CommandOnCluster) -> None:
    assert "1 tainted" in toposcope_on(tainted, "tree").out


@pytest.mark.regression
def test_tree_does_not_mark_taints_that_gpu_pods_tolerate(toposcope_on: CommandOnCluster) -> None:
    assert "tainted" not in toposcope_on(tolerated, "tree").out


@pytest.mark.regression
def test_tree_of_a_large_cluster_fits_a_screen(tmp_path: Path, toposcope: Command) -> None:
    """Racks of different sizes in every block share no line."""
    node = demo_nodes()[0]
    nodes = []
    for number in range(1000):
        block = number // 100
        rack = number % 100 // (7 + block)
        labels = {
            **node["metadata"]["labels"],
            "cloud.google.com/gce-topology-block": f"b{block}",
            RACK: f"a-long-name-of-a-rack-{block}-{rack}",
        }
        nodes.append({**node, "metadata": {"name": f"n{number}", "labels": labels}})
    file = write_cluster(tmp_path / "cluster.json", *nodes, cluster_topology())

    lines = toposcope(f"tree --from {file}", code=None).out.splitlines()
    assert len(lines) < 50
    assert lines[-1].startswith("below, and not shown: nvlink-domain > host; toposcope tree --depth 4 and more")
    all_lines = toposcope(f"tree --all --from {file}", code=None).out.splitlines()
    assert len(all_lines) > 300


def test_pipe_that_closes_early_causes_no_error(save: Save) -> None:
    command = (
        f"{sys.executable} -W error -m toposcope.cli.main tree --all --from {save(demo)} "
        "| head -n 1; echo ${PIPESTATUS[0]}"
    )
    ran = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    first, code = ran.stdout.splitlines()
    assert first.startswith("ClusterTopology cluster")
    assert code in ("1", "141")  # head may be quicker or slower than we are
    assert ran.stderr == ""


def test_tree_levels_and_matrix_read_a_running_cluster(api: ApiUnderTest, toposcope: Command) -> None:
    for shown in demo_nodes(most=2):
        metadata = shown["metadata"]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": metadata["name"],
                "labels": metadata["labels"],
                "annotations": metadata["annotations"],
            },
        }
        api.create(NODES, node)
    where = f"--kubeconfig {api.kubeconfig}"

    names = toposcope(f"tree {where} --level rack -o name", code=1).out.split()
    assert names == ["zone-1", "zone-1/block-1", "zone-1/block-1/rack-1"]
    matrix = toposcope(f"matrix gb200-01 {where}", code=1).out
    assert "NV18" in matrix
    err = toposcope(f"levels {where} --context nowhere", code=2).err
    assert "contexts has no entry named 'nowhere'" in err


def test_summary_of_a_running_cluster_takes_one_request(tmp_path: Path, toposcope: Command) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with EmbeddedApiServer() as server:
        server.load([cluster_topology_crd(), cluster_topology({"nodes": 2})])
        server.write_kubeconfig(kubeconfig)
        requests = requests_to(server)
        out = toposcope(f"tree --summary --kubeconfig {kubeconfig}", code=1).out
    assert "\ncluster: 2 nodes" in out
    (request,) = requests
    assert request.path.endswith("/clustertopologies")


LIKE = """
    apiVersion: batch/v1
    kind: Job
    metadata: {name: gang}
    spec:
      parallelism: 2
      completions: 2
      completionMode: Indexed
      template:
        spec:
          containers:
          - {name: c, resources: {limits: {nvidia.com/gpu: 8, cpu: 64, memory: 400Gi}}}
"""


@pytest.mark.regression
def test_tree_says_which_free_gpus_are_blocked_and_by_whom(toposcope_on: CommandOnCluster) -> None:
    """256 idle GPUs that 29 gangs could not use read as free."""
    ran = toposcope_on(busy_cpus, "tree", code=1)
    _, head, whole, *_, blocked, by_whom = ran.out.splitlines()
    assert head.split() == ["NODES", "GPUS", "FREE", "BLOCKED"]
    assert whole.split() == ["all", "nodes", "4", "32", "32", "16"]
    assert blocked == (
        "! blocked: 16 free GPUs out of reach of a pod with 1 GPU, 6 CPU cores and 60 GiB of memory "
        "(half of what a node has for each GPU, as no pod has GPUs)"
    )
    assert by_whom == "  16 GPUs on 2 nodes (n0, n2), where too little CPU is left: train/cpu-0 and train/cpu-1 hold it"


@pytest.mark.regression
def test_tree_judges_free_gpus_by_a_given_workload(toposcope: Command, save: Save, write: Write, folder: Path) -> None:
    write("gang.yaml", LIKE)
    like = folder / "gang.yaml"
    tree = toposcope(f"tree --from {save(busy_cpus)} --like {like} -o json", code=1).json
    assert tree["freeGpus"] == 32
    assert tree["blockedGpus"] == {"cpu": 16}
    assert tree["pod"] == {"gpus": 8, "cpu": 64.0, "memory": 400 << 30, "basis": "like"}
    assert tree["blocked"] == [
        {
            "reason": "cpu",
            "detail": None,
            "gpus": 16,
            "nodes": ["n0", "n2"],
            "holders": ["train/cpu-0", "train/cpu-1"],
        }
    ]


@pytest.mark.regression
def test_workload_without_gpus_is_no_measure(toposcope: Command, save: Save, write: Write, folder: Path) -> None:
    write("web.yaml", LIKE.replace("nvidia.com/gpu: 8, ", ""))
    err = toposcope(f"tree --from {save(busy_cpus)} --like {folder / 'web.yaml'}", code=2).err
    assert "web.yaml: no pods with GPUs in these files" in err


@pytest.mark.regression
@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_tree_shows_the_worst_mark_first_whatever_the_order_of_nodes(
    order: int, tmp_path: Path, toposcope: Command
) -> None:
    first, second, *others = demo_nodes(most=8, faulty=("gb200-02",))
    first["spec"]["unschedulable"] = True
    nodes = [first, second, *others][::order]
    file = write_cluster(tmp_path / "cluster.json", *nodes, cluster_topology())
    assert "! 1 degraded, 1 cordoned" in toposcope(f"tree --from {file}", code=1).out
