"""What is written, put to API servers: by other projects' CRDs in every version, and suggestions by our controller."""

import json

import pytest
import yaml
from tests.integrations.export.test_levels import a_hierarchy
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import full_controller, make_node
from tests.support.publishing import Time, install, spec_levels
from tests.support.saved import cluster_topology, demo_nodes, saved
from tests.support.tables import each_case
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPU_PRODUCT, HOSTNAME, NVLINK_DOMAIN
from toposcope.cli.main import main
from toposcope.simulator import manifests


@each_case("tables/integrations-export.yaml")
def test_what_is_exported_is_taken_and_read_back(
    api: ApiUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    crd: str,
    system: str,
    variant: str,
    plural: str,
) -> None:
    install(api, crd)
    files = tmp_path_factory.mktemp("files")
    older = variant == "clustertopology"
    for number, levels in enumerate([_demo_levels(), *([] if older else map(_random_levels, range(8)))]):
        source = files / "source.json"
        source.write_text(json.dumps(cluster_topology(levels=levels)))
        name = f"t-{number}"
        given = ["--convert", str(source), "--format", system, "--variant", variant, "--name", name]
        given += ["--without", "nvlink-domain"] if older else []
        code = main(["export", *given])
        written = capsys.readouterr()
        if variant == "v1alpha1" and len(levels) > 8:
            assert code == 1, "too many levels for it"
            continue
        assert code == 0, written.err
        document = yaml.safe_load(written.out)
        path = f"/apis/{document['apiVersion']}/{plural}"
        answer, body = api.request("POST", f"{path}?fieldValidation=Strict", document)
        assert answer == 201, body
        stored = files / "stored.json"
        stored.write_text(json.dumps(api.get(f"{path}/{document['metadata']['name']}")))
        assert main(["export", "--convert", str(stored), "--format", "runai"]) == 0
        keys = [level["key"] for level in levels if not (older and level["domain"] == "nvlink-domain")]
        assert json.loads(capsys.readouterr().out)["levels"] == keys


def _demo_levels() -> list[dict[str, str]]:
    return spec_levels(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)


def _random_levels(seed: int) -> list[dict[str, str]]:
    return [{"domain": level.domain, "key": level.key} for level in a_hierarchy(seed).levels]


CLUSTERS = {
    "one kind": {f"n{i}": {ZONE: "z", RACK: f"r{i // 2}"} for i in range(4)},
    "two kinds": {f"g{i}": {ZONE: "z", RACK: f"r{i}", GPU_PRODUCT: "NVIDIA-GB200"} for i in range(3)}
    | {f"h{i}": {ZONE: "z", GPU_PRODUCT: "NVIDIA-H100"} for i in range(2)},
    "levels that do not nest": {f"n{i:02}": {BLOCK: f"b{i // 10}", RACK: f"r{i // 7}"} for i in range(20)},
    "a placeholder": {"a": {ZONE: "z", RACK: "r"}, "b": {ZONE: "z", RACK: "no-topology"}},
}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_suggestion_is_taken_and_becomes_ready(
    api: ApiUnderTest, clients: Clients, capsys: pytest.CaptureFixture[str], cluster: str
) -> None:
    api.share_crd(manifests.cluster_topology_crd())
    api.install_crd(manifests.crd("kai/topology"))
    for name, labels in CLUSTERS[cluster].items():
        make_node(api, name, labels)
    code = main(["suggest", "--kubeconfig", str(api.kubeconfig)])
    printed = capsys.readouterr()
    assert code == (1 if cluster == "a placeholder" else 0), printed.err
    suggestions = list(yaml.safe_load_all(printed.out))
    assert len(suggestions) == (2 if cluster == "two kinds" else 1)
    for document in suggestions:
        answer, body = api.request("POST", f"{PATH}?fieldValidation=Strict", document)
        assert answer == 201, body
    full_controller(clients(), Time()).once()
    nodes = 0
    for document in suggestions:
        status = api.get(f"{PATH}/{document['metadata']['name']}")["status"]
        conditions = {
            condition["type"]: (condition["status"], condition["message"]) for condition in status["conditions"]
        }
        assert conditions["Ready"][0] == "True", conditions
        assert [level["missing"] for level in status["levels"]] == [0] * len(document["spec"]["levels"])
        nodes += status["nodes"]
    assert nodes == len(CLUSTERS[cluster]) - (cluster == "a placeholder")


def test_the_demo_needs_one_topology(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("saved") / "demo.json"
    file.write_text(saved(demo_nodes()))
    assert main(["suggest", "--from", str(file)]) == 0
    (only,) = yaml.safe_load_all(capsys.readouterr().out)
    assert only["spec"] == {"levels": _demo_levels()}
