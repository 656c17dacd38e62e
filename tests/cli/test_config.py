"""An admin's own levels count for commands as they do for the controller: from a file, and from the cluster."""

from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.support.api import NODES, ApiUnderTest, create_namespace, node
from tests.support.paths import DOCUMENTS
from tests.support.saved import Object
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.cli.catalogue import CONFIG_MAP, KEY, followed
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load

CONFIG = (DOCUMENTS / "cli" / "own-levels.yaml").read_text(encoding="utf-8")
CONFIG_MAP_OBJECT: Object = {
    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": {KEY: CONFIG},
}  # fmt: skip
PATH = "row-1 row-1/rack-1 row-1/rack-1/n1 row-1/rack-2 row-1/rack-2/n2 row-1/rack-2/n3"


def nodes() -> list[Object]:
    """Three Ready nodes in two racks of a row."""
    status = {
        "allocatable": {"nvidia.com/gpu": "8", "cpu": "64", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    racks = {"n1": "rack-1", "n2": "rack-2", "n3": "rack-2"}
    ready_nodes = []
    for name, rack in racks.items():
        labels = {
            "gpu.topology/gpus": "8",
            "gpu.topology/state": "ok",
            "example.com/row": "row-1",
            "kubernetes.io/hostname": name,
            "example.com/rack": rack,
        }
        labelled = node(name, labels=labels)
        ready_nodes.append(labelled | {"status": status})
    return ready_nodes


def controller() -> Object:
    """The Deployment by which a command finds the controller's namespace."""
    labels = {
        "app.kubernetes.io/name": "toposcope",
        "app.kubernetes.io/component": "controller",
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "toposcope-controller", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.mark.parametrize("place", [HOME_NAMESPACE, "gpus"])
def test_levels_of_the_controller_count_in_its_cluster(
    place: str, api: ApiUnderTest, tmp_path: Path, toposcope: Command
) -> None:
    if place != HOME_NAMESPACE and api.name == "embedded":
        pytest.skip("the embedded API server has no Deployments to find the controller by")
    for labelled in nodes():
        api.create(NODES, labelled)
    where = ["--kubeconfig", str(api.kubeconfig), "-o", "name"]
    without_config = toposcope("tree", *where, code=1)  # no ClusterTopology
    assert without_config.out.split() == ["n1", "n2", "n3"]

    create_namespace(api, place)
    api.create(f"/api/v1/namespaces/{place}/configmaps", CONFIG_MAP_OBJECT)
    if place != HOME_NAMESPACE:
        api.create(f"/apis/apps/v1/namespaces/{place}/deployments", controller())
    with_config = toposcope("tree", *where, code=1)
    assert with_config.out.split() == PATH.split()

    without_catalogue, _, _ = CONFIG.partition("catalogue")
    plain = tmp_path / "plain.yaml"
    plain.write_text(without_catalogue)
    with_own_config = toposcope("tree", *where, "--config", str(plain), code=1)
    assert with_own_config.out.split() == ["n1", "n2", "n3"]


@pytest.mark.regression
def test_page_follows_changes_of_the_configuration(api: ApiUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
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
