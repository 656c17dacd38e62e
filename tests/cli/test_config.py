"""An admin's own levels count for commands as they do for the controller: from a file, and from the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.api import NODES, ApiUnderTest
from tests.support.saved import Object, cluster_topology, saved
from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.cli.catalogue import CONFIG_MAP, KEY
from toposcope.cli.main import main

CONFIG = """\
apiVersion: config.gpu.topology/v1alpha1
kind: ControllerConfig
catalogue:
  domains:
  - {name: row, after: block, keys: [example.com/row]}
  keys:
  - {key: example.com/rack, domain: rack}
  placeholders: [unassigned]
"""
CONFIG_MAP_OBJECT: Object = {
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": {KEY: CONFIG},
}  # fmt: skip
PATH = "row-1 row-1/rack-1 row-1/rack-1/n1 row-1/rack-2 row-1/rack-2/n2 row-1/rack-2/n3"


def nodes() -> list[Object]:
    placed = {"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "gpu.topology/gpus": "8",
                    "gpu.topology/state": "ok",
                    "example.com/row": "row-1",
                    "example.com/rack": rack,
                },
            },
            "status": {
                "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for name, rack in placed.items()
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    file = tmp_path / "cluster.json"
    file.write_text(saved([*nodes(), cluster_topology()]))
    return str(file)


@pytest.fixture(params=["file", "configmap"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG if request.param == "file" else yaml.safe_dump(CONFIG_MAP_OBJECT))
    return str(file)


def test_the_levels_of_a_file_count(cluster: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tree", "--from", cluster, "-o", "name"])
    assert capsys.readouterr().out.split() == ["n1", "n2", "n3"]
    main(["tree", "--from", cluster, "-o", "name", "--config", config])
    assert " ".join(capsys.readouterr().out.split()) == PATH
    main(["levels", "--from", cluster, "-o", "name", "--config", config])
    assert capsys.readouterr().out.split() == ["row", "rack", "host"]
    main(["export", "--format", "kai", "--from", cluster, "--config", config])
    keys = [level["nodeLabel"] for level in yaml.safe_load(capsys.readouterr().out)["spec"]["levels"]]
    assert keys == ["example.com/row", "example.com/rack", "kubernetes.io/hostname"]
    main(["suggest", "--from", cluster, "--config", config])
    assert "# All of them have row > rack > host" in capsys.readouterr().out


def test_a_workload_may_ask_for_them(
    cluster: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work.yaml"
    pods = {"replicas": 2, "podSpec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}}
    template = {
        "topologyConstraint": {"topologyName": "cluster", "pack": {"required": "row"}},
        "cliques": [{"name": "worker", "spec": pods, "topologyConstraint": {"pack": {"required": "rack"}}}],
    }
    work.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "PodCliqueSet",
                "metadata": {"name": "llm", "namespace": "ml"},
                "spec": {"template": template},
            }
        )
    )
    assert main(["check", "-f", str(work), "--from", cluster]) == 1
    assert "topology domain 'row' does not exist" in capsys.readouterr().out
    assert main(["check", "-f", str(work), "--from", cluster, "--config", config, "-o", "json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["workloads"]
    assert found["verdict"]["kind"] == "fits"
    assert main(["explain", "pcs/llm", "-n", "ml", "--from", cluster, "--from", str(work), "--config", config]) == 0
    assert "Nothing is wrong" in capsys.readouterr().out


def test_its_placeholders_are_no_place(cluster: str, config: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(cluster)
    file.write_text(file.read_text().replace("rack-1", "unassigned"))
    main(["nodes", "--from", cluster, "--config", config, "-o", "json"])
    assert json.loads(capsys.readouterr().out)["nodes"][0]["domains"] == {"row": "row-1", "host": "n1"}
    main(["levels", "--from", cluster, "--config", config])
    assert "! rack: not a level of the topology, because 1 node lacks it: n1" in capsys.readouterr().out


def test_a_snapshot_brings_them_along(
    cluster: str, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["save", str(tmp_path / "saved"), "--from", cluster, "--config", config])
    capsys.readouterr()
    main(["tree", "--from", str(tmp_path / "saved"), "-o", "name"])
    assert " ".join(capsys.readouterr().out.split()) == PATH


def test_label_keys_in_other_forms_are_named_by_them(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kai = tmp_path / "kai.yaml"
    kai.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: cluster}\n"
        "spec: {levels: [{nodeLabel: example.com/row}, {nodeLabel: example.com/rack}]}\n"
    )
    main(["export", "--format", "osmo", "--convert", str(kai), "--config", config])
    assert [level["key"] for level in yaml.safe_load(capsys.readouterr().out)["topology_keys"]] == ["row", "rack"]


def test_what_is_wrong_with_it_is_told(cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG + "  nearMisses: [{key: example.com/rack}]\n")
    main(["tree", "--from", cluster, "-o", "name", "--config", str(file)])
    found = capsys.readouterr()
    assert " ".join(found.out.split()) == PATH
    assert f"warning: {file}:9: catalogue.nearMisses[0].key: 'example.com/rack' is a level" in found.err
    for text, words in (
        ("kind: ConfigMap\n", "data: the ConfigMap has no config.yaml"),
        ("{", f"--config {file}:2: not YAML"),
        ("kind: Pod\n", "apiVersion: must be config.gpu.topology/v1alpha1"),
    ):
        file.write_text(text)
        assert main(["tree", "--from", cluster, "--config", str(file)]) == 2
        assert words in capsys.readouterr().err
    assert main(["tree", "--from", cluster, "--config", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err


def namespace(api: ApiUnderTest, name: str) -> None:
    api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest.mark.parametrize("place", [HOME_NAMESPACE, "gpus"])
def test_of_a_running_cluster_those_of_the_controller_count(
    place: str, api: ApiUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if place != HOME_NAMESPACE and api.name == "embedded":
        pytest.skip("the embedded API server has no Deployments to find the controller by")
    for node in nodes():
        api.create(NODES, node)
    where = ["--kubeconfig", str(api.kubeconfig), "-o", "name"]
    main(["tree", *where])
    assert capsys.readouterr().out.split() == ["n1", "n2", "n3"]
    namespace(api, place)
    api.create(f"/api/v1/namespaces/{place}/configmaps", CONFIG_MAP_OBJECT)
    if place != HOME_NAMESPACE:
        labels = {"app.kubernetes.io/name": "toposcope", "app.kubernetes.io/component": "controller"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "toposcope-controller", "labels": labels},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        api.create(f"/apis/apps/v1/namespaces/{place}/deployments", deployment)
    main(["tree", *where])
    assert " ".join(capsys.readouterr().out.split()) == PATH
    plain = tmp_path / "plain.yaml"
    plain.write_text(CONFIG.partition("catalogue")[0])
    main(["tree", *where, "--config", str(plain)])
    assert capsys.readouterr().out.split() == ["n1", "n2", "n3"]
