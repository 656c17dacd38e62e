"""An admin's own levels count for commands as they do for the controller: from a file, and from the cluster."""

from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Command, write_cluster
from tests.support.api import NODES, ApiUnderTest, create_namespace, node
from tests.support.saved import Object, cluster_topology
from toposcope.api.cluster_topology import HOME_NAMESPACE
from toposcope.cli.catalogue import CONFIG_MAP, KEY, followed
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

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
    status = {
        "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    labels = {"gpu.topology/gpus": "8", "gpu.topology/state": "ok", "example.com/row": "row-1"}
    return [
        node(name, labels=labels | {"kubernetes.io/hostname": name, "example.com/rack": rack}) | {"status": status}
        for name, rack in {"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}.items()
    ]


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    return write_cluster(tmp_path / "cluster.json", *nodes(), cluster_topology())


@pytest.fixture(params=["file", "configmap"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG if request.param == "file" else yaml.safe_dump(CONFIG_MAP_OBJECT))
    return str(file)


def test_the_levels_of_a_file_count(cluster: str, config: str, toposcope: Command) -> None:
    assert toposcope(f"tree --from {cluster} -o name").out.split() == ["n1", "n2", "n3"]
    assert " ".join(toposcope(f"tree --from {cluster} -o name --config {config}").out.split()) == PATH
    names = toposcope(f"levels --from {cluster} -o name --config {config}").out.split()
    assert names == ["row", "rack", "host"]
    keys = [
        level["nodeLabel"]
        for level in toposcope(f"export --format kai --from {cluster} --config {config}").yaml["spec"]["levels"]
    ]
    assert keys == ["example.com/row", "example.com/rack", "kubernetes.io/hostname"]
    assert "# All of them have row > rack > host" in toposcope(f"suggest --from {cluster} --config {config}").out


def test_a_workload_may_ask_for_them(cluster: str, config: str, tmp_path: Path, toposcope: Command) -> None:
    work = tmp_path / "work.yaml"
    pod = {"schedulerName": "kai-scheduler", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}
    pods = {"roleName": "worker", "replicas": 2, "podSpec": pod}
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
                "spec": {"replicas": 1, "template": template},
            }
        )
    )
    assert "topology domain 'row' does not exist" in toposcope(f"check -f {work} --from {cluster}", code=1).out
    [found] = toposcope(f"check -f {work} --from {cluster} --config {config} -o json").json["workloads"]
    assert found["verdict"]["kind"] == "fits"
    out = toposcope(f"explain pcs/llm -n ml --from {cluster} --from {work} --config {config}").out
    assert "Nothing is wrong" in out


def test_its_placeholders_are_no_place(cluster: str, config: str, toposcope: Command) -> None:
    file = Path(cluster)
    file.write_text(file.read_text().replace("rack-1", "unassigned"))
    assert toposcope(f"nodes --from {cluster} --config {config} -o json").json["nodes"][0]["domains"] == {
        "row": "row-1",
        "host": "n1",
    }
    out = toposcope(f"levels --from {cluster} --config {config}", code=1).out
    assert "1 node lacks it (1 with the value 'unassigned', which names no place) and all 3 must carry it: n1" in out


def test_a_snapshot_brings_them_along(cluster: str, config: str, tmp_path: Path, toposcope: Command) -> None:
    toposcope(f"save {tmp_path / 'saved'} --from {cluster} --config {config}")
    assert " ".join(toposcope(f"tree --from {tmp_path / 'saved'} -o name").out.split()) == PATH


def test_label_keys_in_other_forms_are_named_by_them(config: str, tmp_path: Path, toposcope: Command) -> None:
    kai = tmp_path / "kai.yaml"
    kai.write_text(
        "apiVersion: kai.scheduler/v1alpha1\nkind: Topology\nmetadata: {name: cluster}\n"
        "spec: {levels: [{nodeLabel: example.com/row}, {nodeLabel: example.com/rack}]}\n"
    )
    assert [
        level["key"]
        for level in toposcope(f"export --format osmo --convert {kai} --config {config}").yaml["topology_keys"]
    ] == ["row", "rack"]


def test_what_is_wrong_with_it_is_reported(cluster: str, tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG + "  nearMisses: [{key: example.com/rack}]\n")
    found = toposcope(f"tree --from {cluster} -o name --config {file}")
    assert " ".join(found.out.split()) == PATH
    assert f"warning: {file}:9: catalogue.nearMisses[0].key: 'example.com/rack' is a level" in found.err
    for text, words in (
        ("kind: ConfigMap\n", "data: the ConfigMap has no config.yaml"),
        ("{", f"--config {file}:2: not YAML"),
        ("kind: Pod\n", "apiVersion: must be config.gpu.topology/v1alpha1"),
    ):
        file.write_text(text)
        assert words in toposcope(f"tree --from {cluster} --config {file}", code=2).err
    assert "No such file" in toposcope(f"tree --from {cluster} --config {tmp_path / 'none'}", code=2).err


@pytest.mark.parametrize("place", [HOME_NAMESPACE, "gpus"])
def test_of_a_running_cluster_those_of_the_controller_count(
    place: str, api: ApiUnderTest, tmp_path: Path, toposcope: Command
) -> None:
    if place != HOME_NAMESPACE and api.name == "embedded":
        pytest.skip("the embedded API server has no Deployments to find the controller by")
    for labelled in nodes():
        api.create(NODES, labelled)
    where = ["--kubeconfig", str(api.kubeconfig), "-o", "name"]
    assert toposcope("tree", *where).out.split() == ["n1", "n2", "n3"]
    create_namespace(api, place)
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
    assert " ".join(toposcope("tree", *where).out.split()) == PATH
    plain = tmp_path / "plain.yaml"
    plain.write_text(CONFIG.partition("catalogue")[0])
    assert toposcope("tree", *where, "--config", str(plain)).out.split() == ["n1", "n2", "n3"]


def test_a_page_follows_what_the_configuration_becomes(api: ApiUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    create_namespace(api, HOME_NAMESPACE)
    path = f"/api/v1/namespaces/{HOME_NAMESPACE}/configmaps"
    api.create(path, CONFIG_MAP_OBJECT)
    texts = iter([CONFIG, CONFIG, "{", CONFIG.replace("unassigned", "nowhere")])

    def wait() -> bool:
        text = next(texts, None)
        if text:
            api.patch(f"{path}/{CONFIG_MAP}", {"data": {KEY: text}})
        return text is None

    with closing(ApiClient(load(str(api.kubeconfig)), "test")) as client:
        found = [catalogue.placeholders for catalogue in followed(client, wait)]
    assert [sorted({"unassigned", "nowhere"} & placeholders) for placeholders in found] == [["unassigned"], ["nowhere"]]
    assert capsys.readouterr().err.startswith("warning: configmap/toposcope-config -n toposcope-system:2: not YAML")
