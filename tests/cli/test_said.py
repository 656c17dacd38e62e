"""What commands say of saved clusters and machines, a row each: tests/fixtures/said.yaml."""

import copy
import fnmatch
import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.cli.conftest import Command, page, write_cluster
from tests.support.saved import Object, cluster_topology, demo_nodes, pod
from tests.support.slices import slices_of
from tests.support.tables import at, each_row, named_objects

Saved = Callable[[str], str]


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """What is different about the nodes whose names match, or about copies of the first of them."""

    nodes: str
    copies: dict[str, int] = {}
    """How many by name; several get a number behind it. A copy has no annotations."""
    labels: dict[str, str | None] = {}
    """None takes away all that match."""
    fields: Object = {}
    gone: bool = False

    def of(self, nodes: list[Object]) -> list[Object]:
        """The nodes of the cluster then."""
        matching = [node for node in nodes if re.fullmatch(self.nodes, node["metadata"]["name"])]
        if self.gone:
            return [node for node in nodes if node not in matching]
        if self.copies:
            names = [f"{name}{i}" if n > 1 else name for name, n in self.copies.items() for i in range(n)]
            matching = [_copied(matching[0], name) for name in names]
            nodes = [*nodes, *matching]
        for node in matching:
            node.update(self.fields)
            labels = node["metadata"]["labels"]
            for key, value in self.labels.items():
                for lost in fnmatch.filter(labels, key):
                    del labels[lost]
                labels |= {} if value is None else {key: value}
        return nodes


def _copied(node: Object, name: str) -> Object:
    made = copy.deepcopy(node)
    made["metadata"] |= {"name": name, "annotations": {}}
    made["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return made


class Running(msgspec.Struct, forbid_unknown_fields=True):
    """Pods of a name, one on each of the nodes that match."""

    name: str
    nodes: str
    gpus: int
    phase: str = "Running"
    job: bool = False
    limits: dict[str, str] = {}
    """In the place of GPUs."""

    def of(self, nodes: list[Object]) -> list[Object]:
        names = [node["metadata"]["name"] for node in nodes]
        chosen = [name for name in names if re.fullmatch(self.nodes, name)]
        pods = [pod(f"{self.name}-{i}", name, self.gpus, phase=self.phase) for i, name in enumerate(chosen)]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "uid": "1", "name": self.name}
        for made in pods:
            made["metadata"] |= {"ownerReferences": [owner]} if self.job else {}
            made["spec"]["containers"][0] |= {"resources": {"limits": self.limits}} if self.limits else {}
        return pods


class Cluster(msgspec.Struct, forbid_unknown_fields=True):
    """A saved cluster: the demo's nodes, and what is different."""

    most: int = 30
    faulty: tuple[str, ...] = ()
    changes: list[Change] = []
    pods: list[Running] = []
    topology: Object | None = {}
    """The spec of the ClusterTopology; None: there is none."""
    status: Object = {}
    slices: str = ""
    """Nodes whose GPUs and NICs are offered by DRA drivers alone."""
    attributes: dict[str, dict[str, Object]] = {}
    """What a device such as `h200-1/gpu-3` says of itself instead."""
    objects_too: list[Object] = []

    def objects(self) -> list[Object]:
        nodes = demo_nodes(most=self.most, faulty=self.faulty)
        for change in self.changes:
            nodes = change.of(nodes)
        offered = [node for node in nodes if re.fullmatch(self.slices, node["metadata"]["name"])]
        slices = copy.deepcopy([offer for node in offered for offer in slices_of(node["metadata"]["name"])])
        for node in offered:
            node["status"] |= {"allocatable": {**node["status"]["allocatable"], "nvidia.com/gpu": "0"}}
        for offer in slices:
            for device in offer["spec"]["devices"]:
                device["attributes"] |= self.attributes.get(f"{offer['spec']['nodeName']}/{device['name']}", {})
        pods = [pod for running in self.pods for pod in running.of(nodes)]
        topology = [] if self.topology is None else [cluster_topology(self.status, **self.topology)]
        return [*nodes, *pods, *topology, *slices, *self.objects_too]


CLUSTERS = msgspec.convert(named_objects("saved_clusters.yaml"), dict[str, Cluster])


class Said(msgspec.Struct, forbid_unknown_fields=True):
    """One command line; words in capitals stand for files: a cluster, one of `files`, or the folder TMP."""

    run: str
    case: str = ""
    """What the command line does not say."""
    first: str = ""
    """Another one before it."""
    code: int = 0
    files: dict[str, str | list[str]] = {}
    """By name; several texts are documents of one file."""
    page: str = ""
    """All of standard output, as a file of pages/."""
    exactly: str | None = None
    """All of standard output."""
    words: list[str] | None = None
    """The same, by its words."""
    out: list[str] = []
    err: list[str] = []
    absent: list[str] = []
    """What neither says."""
    holds: dict[str, Any] = {}
    """What the JSON or YAML has at a path such as `domains[0].gpus`."""
    written: dict[str, list[str]] = {}
    """What files in TMP then say."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("saved")
    return functools.cache(lambda name: write_cluster(folder / name, *CLUSTERS[name].objects()))


@pytest.mark.regression
@each_row("said.yaml", Said, ids=lambda row: row.case or row.run)
def test_what_a_command_says(
    row: Said, saved: Saved, tmp_path: Path, toposcope: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name, text in row.files.items():
        (tmp_path / name).write_text(text if isinstance(text, str) else "---\n".join(text), encoding="latin-1")

    def placed(text: str) -> str:
        known = "|".join(sorted((*CLUSTERS, *row.files, "TMP"), reverse=True))
        return re.sub(
            rf"\b(?:{known})\b",
            lambda word: saved(word[0]) if word[0] in CLUSTERS else str(tmp_path / word[0].replace("TMP", ".")),
            text,
        )

    if row.first:
        toposcope(placed(row.first))
    ran = toposcope(placed(row.run), code=row.code)
    assert not row.page or ran.out == page(row.page).replace("{file}", str(tmp_path / "WORK"))
    assert row.exactly is None or ran.out == placed(row.exactly)
    assert row.words is None or ran.out.split() == row.words
    assert [text for text in row.out if placed(text) not in ran.out] == [], ran
    assert [text for text in row.err if placed(text) not in ran.err] == [], ran
    assert [text for text in ["Traceback", *row.absent] if text in ran.out + ran.err] == [], ran
    if row.holds:
        documents = list(yaml.safe_load_all(ran.out))
        document = documents[0] if len(documents) == 1 else documents
        assert {path: at(document, path) for path in row.holds} == row.holds
    for name, texts in row.written.items():
        assert [text for text in texts if text not in (tmp_path / name).read_text()] == []
