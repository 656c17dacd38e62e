"""`toposcope check` with documents that are no objects of the Kubernetes API."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.support.saved import cluster_topology, demo_nodes, saved

RACK = "cloud.google.com/gce-topology-subblock"
WORKFLOW = f"""\
workflow:
  name: train
  resources:
    shard:
      gpu: 4
      topology:
      - key: rak
  groups:
  - name: model
    tasks:
    - {{name: a, image: python, resource: shard, lead: true}}
    - {{name: b, image: python, resource: shard}}
---
pools:
  gb200:
    backend: default
    topology_keys:
    - {{key: rack, label: {RACK}}}
    - {{key: gpu-clique, label: nvidia.com/gpu-clique}}
---
levels: [{RACK}, kubernetes.io/hostname]
name: default-topology
clusterId: 71f69d83
"""
ANSWER = """\
{file}, document 1, line 1: workflow/train (OSMO)
  error: workflow.resources.shard.topology[0].key (line 7): Topology key "rak" in resource "shard" is not available in \
pool "gb200". Available topology keys: ['gpu-clique', 'rack']
    did you mean 'rack'?
  note: which nodes the platforms of the pool may use is set in OSMO's pod templates and not known here: all nodes count
  note: room is not checked before the levels are right
{file}, document 2, line 13: OSMO pools and backends
  warning: pools.gb200.topology_keys[1].label (line 19): no node carries the label 'nvidia.com/gpu-clique'; KAI leaves \
out nodes that lack a key of the pool, so no workflow with topology starts
    did you mean 'nvidia.com/gpu.clique'?
{file}, document 3, line 20: Run:ai network topology
3 workloads checked, 1 error, 1 warning
"""


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    nodes = demo_nodes(most=4)
    for node in nodes:
        node["metadata"]["labels"]["nvidia.com/gpu.clique"] = "a.1"
    file.write_text(saved([*nodes, cluster_topology()]))
    return str(file)


def test_a_pool_in_the_same_run(cluster: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "workflow.yaml"
    file.write_text(WORKFLOW)
    assert toposcope(f"check -f {file} --from {cluster}", code=1).out == ANSWER.format(file=file)
    # A pool in a file of its own, as OSMO prints it.
    workflow, _, pool = WORKFLOW.replace("rak\n", "rack\n").partition("---\n")
    file.write_text(workflow)
    configured = tmp_path / "pool.json"
    keys = [{"key": "rack", "label": RACK}]
    configured.write_text(json.dumps({"pools": {"gb200": {"topology_keys": keys}}}, indent=2))
    assert pool
    assert "fits: rack rack-1 (4 nodes, " in toposcope(f"check -f {file} -f {configured} --from {cluster}").out


def test_a_document_of_unknown_kind_is_reported(cluster: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("what: is this\n---\n" + WORKFLOW.partition("---\n")[0].replace("rak\n", "rack\n"))
    shown = toposcope(f"check -f {file} --from {cluster}", code=2)
    assert f"{file}, document 1, line 1: kind: is missing; what object is this?" in shown.err
    assert "workflow/train" in shown.out
