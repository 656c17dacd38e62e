"""Exports put to API servers: other projects' CRDs in every version, and suggestions before our controller."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integrations.export.hierarchies import random_hierarchy
from tests.support.api import ApiUnderTest, Clients
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.controller import full_controller, make_node
from tests.support.publishing import Time, install, spec_levels
from tests.support.saved import cluster_topology, demo_nodes, saved
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPU_PRODUCT, HOSTNAME, NVLINK_DOMAIN
from toposcope.cli.main import main
from toposcope.simulator import manifests

pytestmark = pytest.mark.slow

DEMO_LEVELS = spec_levels(ZONE, BLOCK, RACK, NVLINK_DOMAIN, HOSTNAME)
LEVELS_OF_V1ALPHA1 = 8


def random_levels(seed: int) -> list[dict[str, str]]:
    return [{"domain": level.domain, "key": level.key} for level in random_hierarchy(seed).levels]


@dataclass
class Exporter:
    """`toposcope export --convert`, on files in a folder."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    def convert(self, document: dict[str, Any], *arguments: str) -> tuple[int, str]:
        """The exit code, and what was printed; the errors where it failed."""
        source = self.folder / "source.json"
        text = json.dumps(document)
        source.write_text(text)
        code = main(["export", "--convert", str(source), *arguments])
        printed = self.capsys.readouterr()
        if code == 0:
            return code, printed.out
        return code, printed.err

    def keys(self, document: dict[str, Any]) -> list[str]:
        """The label keys of a document, by Run:ai's format, which has nothing else."""
        code, text = self.convert(document, "--format", "runai")
        assert code == 0, text
        keys: list[str] = json.loads(text)["levels"]
        return keys


@pytest.fixture
def exporter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Exporter:
    return Exporter(tmp_path, capsys)


def stored(api: ApiUnderTest, plural: str, document: dict[str, Any]) -> dict[str, Any]:
    """The document as an API server with its CRD stores it. Fails if it has a field that the CRD lacks."""
    version = document["apiVersion"]
    name = document["metadata"]["name"]
    path = f"/apis/{version}/{plural}"
    status, answer = api.request("POST", f"{path}?fieldValidation=Strict", document)
    assert status == 201, answer
    return api.get(f"{path}/{name}")


@pytest.mark.parametrize(
    ("crd", "variant"),
    [
        pytest.param("grove-clustertopologybindings-alpha9", "binding", id="grove-alpha9"),
        pytest.param("grove-clustertopologybindings-alpha10", "binding", id="grove-alpha10"),
        pytest.param("kai-topologies-v0.12", "plain", id="kai-v0.12"),
        pytest.param("kai-topologies-v0.14", "plain", id="kai-v0.14"),
        pytest.param("kai-topologies-v0.17", "plain", id="kai-v0.17"),
        pytest.param("kai-topologies-v0.17", "aliases", id="kai-v0.17-aliases"),
        pytest.param("kueue-topologies-v0.9", "v1alpha1", id="kueue-v0.9"),
        pytest.param("kueue-topologies-v0.13", "v1alpha1", id="kueue-v0.13"),
        pytest.param("kueue-topologies-v0.14", "v1beta1", id="kueue-v0.14"),
        pytest.param("kueue-topologies-v0.19", "v1beta1", id="kueue-v0.19-v1beta1"),
        pytest.param("kueue-topologies-v0.19", "v1beta2", id="kueue-v0.19-v1beta2"),
        pytest.param("kueue-topologies-main", "v1beta2", id="kueue-main"),
    ],
)
def test_exported_document_is_accepted_and_read_back(
    api: ApiUnderTest, exporter: Exporter, crd: str, variant: str
) -> None:
    system, plural, _ = crd.split("-", 2)
    install(api, crd)
    hierarchies = [DEMO_LEVELS, *(random_levels(seed) for seed in range(8))]
    for number, levels in enumerate(hierarchies):
        code, text = exporter.convert(
            cluster_topology(levels=levels),
            "--format",
            system,
            "--variant",
            variant,
            "--name",
            f"t-{number}",
        )
        if variant == "v1alpha1" and len(levels) > LEVELS_OF_V1ALPHA1:
            assert code == 1, "too many levels for it"
            continue
        assert code == 0, text
        document = stored(api, plural, yaml.load(text, yaml.CSafeLoader))
        assert exporter.keys(document) == [level["key"] for level in levels]


def test_exported_topology_of_older_grove_is_accepted_and_read_back(api: ApiUnderTest, exporter: Exporter) -> None:
    """It knows no NVLink domains."""
    install(api, "grove-clustertopologies-alpha4")

    code, text = exporter.convert(
        cluster_topology(levels=DEMO_LEVELS),
        "--format",
        "grove",
        "--variant",
        "clustertopology",
        "--name",
        "t-0",
        "--without",
        "nvlink-domain",
    )

    assert code == 0, text
    document = stored(api, "clustertopologies", yaml.load(text, yaml.CSafeLoader))
    assert exporter.keys(document) == [ZONE, BLOCK, RACK, HOSTNAME]


@dataclass
class SuggestingCluster:
    """`toposcope suggest` on an API server, and what the controller makes of the suggestions."""

    api: ApiUnderTest
    clients: Clients
    capsys: pytest.CaptureFixture[str]

    def suggest(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the suggested ClusterTopologies."""
        kubeconfig = str(self.api.kubeconfig)
        code = main(["suggest", "--kubeconfig", kubeconfig])
        printed = self.capsys.readouterr()
        assert code in (0, 1), printed.err
        suggestions = list(yaml.load_all(printed.out, yaml.CSafeLoader))
        return code, suggestions

    def ready_nodes(self, suggestions: list[dict[str, Any]]) -> int:
        """Apply the suggestions, run the controller, and count their nodes. Fails if one does not become Ready."""
        for document in suggestions:
            status, answer = self.api.request("POST", f"{PATH}?fieldValidation=Strict", document)
            assert status == 201, answer
        controller = full_controller(self.clients(), Time())
        controller.once()
        return sum(self._ready_nodes_of(document) for document in suggestions)

    def _ready_nodes_of(self, document: dict[str, Any]) -> int:
        name = document["metadata"]["name"]
        topology = self.api.get(f"{PATH}/{name}")
        status = topology["status"]
        conditions = {condition["type"]: condition for condition in status["conditions"]}
        ready = conditions["Ready"]
        assert ready["status"] == "True", ready["message"]

        levels = document["spec"]["levels"]
        missing = [level["missing"] for level in status["levels"]]
        assert missing == [0] * len(levels)
        nodes: int = status["nodes"]
        return nodes


@pytest.fixture
def cluster(api: ApiUnderTest, clients: Clients, capsys: pytest.CaptureFixture[str]) -> SuggestingCluster:
    api.share_crd(manifests.cluster_topology_crd())
    api.install_crd(manifests.crd("kai/topology"))
    return SuggestingCluster(api, clients, capsys)


def test_suggestion_for_one_kind_of_nodes_becomes_ready(cluster: SuggestingCluster) -> None:
    for number in range(4):
        make_node(cluster.api, f"n{number}", {ZONE: "z", RACK: f"r{number // 2}"})

    code, suggestions = cluster.suggest()

    assert code == 0
    assert len(suggestions) == 1
    assert cluster.ready_nodes(suggestions) == 4


def test_suggestions_for_two_kinds_of_nodes_become_ready(cluster: SuggestingCluster) -> None:
    for number in range(3):
        make_node(cluster.api, f"g{number}", {ZONE: "z", RACK: f"r{number}", GPU_PRODUCT: "NVIDIA-GB200"})
    for number in range(2):
        make_node(cluster.api, f"h{number}", {ZONE: "z", GPU_PRODUCT: "NVIDIA-H100"})

    code, suggestions = cluster.suggest()

    assert code == 0
    assert len(suggestions) == 2
    assert cluster.ready_nodes(suggestions) == 5


def test_suggestion_when_levels_do_not_nest_becomes_ready(cluster: SuggestingCluster) -> None:
    for number in range(20):
        make_node(cluster.api, f"n{number:02}", {BLOCK: f"b{number // 10}", RACK: f"r{number // 7}"})

    code, suggestions = cluster.suggest()

    assert code == 0
    assert len(suggestions) == 1
    assert cluster.ready_nodes(suggestions) == 20


def test_suggestion_beside_a_placeholder_becomes_ready_without_it(cluster: SuggestingCluster) -> None:
    make_node(cluster.api, "a", {ZONE: "z", RACK: "r"})
    make_node(cluster.api, "b", {ZONE: "z", RACK: "no-topology"})
    make_node(cluster.api, "c", {ZONE: "z"})

    code, suggestions = cluster.suggest()

    assert code == 1
    assert len(suggestions) == 2
    assert cluster.ready_nodes(suggestions) == 2


def test_suggestion_for_the_demo_is_one_topology(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "demo.json"
    file.write_text(saved(demo_nodes()))

    assert main(["suggest", "--from", str(file)]) == 0

    (topology,) = yaml.load_all(capsys.readouterr().out, yaml.CSafeLoader)
    assert topology["spec"] == {"levels": DEMO_LEVELS}
