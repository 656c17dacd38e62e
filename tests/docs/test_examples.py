"""docs/examples/: what is right is accepted and fits, and what is wrong is told, without any cluster."""

from pathlib import Path

import pytest
from tests.support.paths import ROOT
from tests.support.saved import cluster_topology, demo_nodes, saved
from tests.support.slices import device_class, slices_of
from toposcope.cli.main import main

EXAMPLES = ROOT / "docs" / "examples"
GOOD = sorted(path.name for path in EXAMPLES.glob("*.yaml") if not path.stem.endswith("-wrong"))
WRONG = {
    "grove-wrong.yaml": "is narrower than PodClique 'decode' topology constraint domain 'block'",
    "kai-wrong.yaml": "a label key is required here: write 'cloud.google.com/gce-topology-subblock'",
    "kube-scheduler-wrong.yaml": "no feasible placements found",
    "kueue-wrong.yaml": "must not contain more than one topology annotation",
}
"""Files that are wrong, and what is told of them."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cluster") / "cluster.json"
    objects = [
        *demo_nodes(),
        cluster_topology(),
        device_class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'"),
    ]
    for node in demo_nodes():
        name = node["metadata"]["name"]
        objects += slices_of(name)
    file.write_text(saved(objects), encoding="utf-8")
    return file


def check(example: str, cluster: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    arguments = [
        "check",
        "-f",
        str(EXAMPLES / example),
        "--from",
        str(cluster),
    ]
    code = main(arguments)
    return code, capsys.readouterr().out


@pytest.mark.regression
@pytest.mark.parametrize("example", GOOD)
def test_good_example_fits(example: str, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, page = check(example, cluster, capsys)
    expected = 3 if example == "kueue-queue.yaml" else 0  # queues alone are nothing to check
    assert code == expected, page
    assert "error:" not in page
    # A flavor and a queue ask for no room.
    assert "fits: " in page or example in ("kueue-flavor.yaml", "kueue-queue.yaml")


@pytest.mark.parametrize("example", WRONG)
def test_wrong_example_is_explained(example: str, cluster: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, page = check(example, cluster, capsys)
    assert WRONG[example] in page


def test_every_example_is_good_or_wrong() -> None:
    names = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert sorted(names) == sorted([*GOOD, *WRONG])
