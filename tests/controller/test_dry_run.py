"""A dry run: what it shows is what a real run then does, and nothing is written meanwhile."""

import pytest
import yaml
from tests.support.api import NODES, ApiUnderTest, Clients
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.controller import make_node, make_topology
from tests.support.publishing import BINDINGS, FOUR, Time, WatchedClient, found, install, levels, make_publishers
from toposcope.api.cluster_topology import PATH
from toposcope.cli.main import main as toposcope
from toposcope.controller.publishing.dry_run import PublishersDryRun, ReadOnlyClient, shortened, unified
from toposcope.kube.client import Request
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.simulator import manifests

GROVE_CRD = "grove-clustertopologybindings-alpha10"
KAI_CRD = "kai-topologies-v0.17"


def test_the_server_is_not_asked_twice_for_the_same_trial_within_a_minute(api: ApiUnderTest, clients: Clients) -> None:
    install(api, GROVE_CRD, KAI_CRD)
    time = Time()
    trials: list[str] = []

    def note(request: Request) -> None:
        is_trial = request.query.get("dryRun") == "All"
        if request.method == "PATCH" and is_trial:
            trials.append(request.path)

    client = WatchedClient(clients(), note)
    dry_run = PublishersDryRun(client, make_publishers(time), time)
    for time.seconds, asked in ((0.0, 1), (0.0, 1), (60.0, 2)):
        dry_run.publish("grove", topology(), levels(*FOUR))
        assert len(trials) == asked


def test_a_diff_in_a_status_is_cut_at_a_line_and_says_so() -> None:
    entries = []
    for i in range(16):
        entries.append({"domain": f"level-{i}", "key": f"example.com/level-{i}"})
    spec = {"levels": entries}
    diff = unified(None, {"kind": "A", "spec": spec}, "a")
    cut = shortened(diff)
    assert len(cut) < 800
    *shown, last = cut.splitlines()
    left_out = len(diff.splitlines()) - 2 - len(shown)
    assert last == f"... {left_out} more lines"
    document = {"spec": spec}
    assert unified(document, document, "a") == ""


def versions(api: ApiUnderTest) -> list[str]:
    """The resource versions of the topology and a node."""
    numbers = []
    for path in (f"{PATH}/cluster", f"{NODES}/n0"):
        metadata = api.get(path)["metadata"]
        numbers.append(metadata["resourceVersion"])
    return numbers


def added(diff: str) -> str:
    """What a diff adds."""
    lines = []
    for line in diff.splitlines():
        if line.startswith("+") and not line.startswith("+++ "):
            lines.append(line[1:] + "\n")
    return "".join(lines)


def test_the_flag_prints_what_a_run_would_write(api: ApiUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    api.install_crd(manifests.cluster_topology_crd())
    install(api, GROVE_CRD, KAI_CRD)
    for i in range(3):
        labels = {
            ZONE: "z",
            BLOCK: "b",
            RACK: f"r{i}",
        }
        make_node(api, f"n{i}", labels)
    make_topology(api, publish={"kai": "Never"})
    before = versions(api)
    run = ["controller", "--once", "--kubeconfig", str(api.kubeconfig)]
    dry_run = [*run, "--dry-run"]
    assert toposcope(dry_run) == 0
    shown = capsys.readouterr().out
    assert "clustertopologybinding.grove.io/cluster would create" in shown
    assert "+  levelPath: zone > block > rack > nvlink-domain > host\n" in shown
    assert found(api, f"{BINDINGS}/cluster") is None
    assert "status" not in api.get(f"{PATH}/cluster")
    assert versions(api) == before
    assert toposcope(run) == 0
    written = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    binding, _, _ = added(shown).partition("status:")
    assert yaml.load(binding, yaml.CSafeLoader)["spec"]["levels"] == written
    capsys.readouterr()
    assert toposcope(dry_run) == 0
    shown_again = capsys.readouterr()
    assert shown_again.out == ""
    assert "dry run: nothing would be written" in shown_again.err


def test_nothing_gets_past_a_client_that_only_reads(api: ApiUnderTest) -> None:
    client = ReadOnlyClient(load(str(api.kubeconfig)))
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    path = "/api/v1/namespaces/default/configmaps"
    client.read(Request("POST", path, {"dryRun": "All"}, body))
    with pytest.raises(KubeError, match=r"--dry-run: POST .* is not sent"):
        client.read(Request("POST", path, {}, body))
    client.close()
    assert api.get(path)["items"] == []
