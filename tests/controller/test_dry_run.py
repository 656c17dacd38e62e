"""A dry run: what it shows is what a real run then does, and nothing is written meanwhile."""

import pytest
import yaml
from tests.support.api import NODES, ApiUnderTest, Clients
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.controller import make_node, make_topology
from tests.support.publishing import BINDINGS, FOUR, Time, WatchedClient, found, install, levels, make_publishers
from toposcope.api.cluster_topology import PATH
from toposcope.cli.main import main as toposcope
from toposcope.controller.publishing.dry_run import DryRun, ReadOnlyClient, shortened, unified
from toposcope.kube.client import Request
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.simulator import manifests

GROVE_CRD, KAI_CRD = "grove-clustertopologybindings-alpha10", "kai-topologies-v0.17"


def test_the_server_is_not_asked_twice_for_the_same_trial_within_a_minute(api: ApiUnderTest, clients: Clients) -> None:
    install(api, GROVE_CRD, KAI_CRD)
    time, trials = Time(), []

    def note(request: Request) -> None:
        trials.extend([request.path] * (request.method == "PATCH" and request.query.get("dryRun") == "All"))

    dry_run = DryRun(WatchedClient(clients(), note), make_publishers(time), time)
    for time.seconds, asked in ((0.0, 1), (0.0, 1), (60.0, 2)):
        dry_run.publish("grove", topology(), levels(*FOUR))
        assert len(trials) == asked


def test_a_diff_in_a_status_is_cut_at_a_line_and_says_so() -> None:
    spec = {"levels": [{"domain": f"level-{i}", "key": f"example.com/level-{i}"} for i in range(16)]}
    diff = unified(None, {"kind": "A", "spec": spec}, "a")
    cut = shortened(diff)
    assert len(cut) < 800
    assert cut.splitlines()[-1].startswith("... ")
    shown = len(cut.splitlines()) - 1
    assert cut.splitlines()[-1] == f"... {len(diff.splitlines()) - 2 - shown} more lines"
    assert unified({"spec": spec}, {"spec": spec}, "a") == ""


def test_the_flag_prints_what_a_run_would_write(api: ApiUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    api.install_crd(manifests.cluster_topology_crd())
    install(api, GROVE_CRD, KAI_CRD)
    for i in range(3):
        make_node(api, f"n{i}", {ZONE: "z", BLOCK: "b", RACK: f"r{i}"})
    make_topology(api, publish={"kai": "Never"})
    before = [api.get(path)["metadata"]["resourceVersion"] for path in (f"{PATH}/cluster", f"{NODES}/n0")]
    assert toposcope(["controller", "--once", "--dry-run", "--kubeconfig", str(api.kubeconfig)]) == 0
    shown = capsys.readouterr().out
    assert "clustertopologybinding.grove.io/cluster would create" in shown
    assert "+  levelPath: zone > block > rack > nvlink-domain > host\n" in shown
    assert found(api, f"{BINDINGS}/cluster") is None
    assert "status" not in api.get(f"{PATH}/cluster")
    after = [api.get(path)["metadata"]["resourceVersion"] for path in (f"{PATH}/cluster", f"{NODES}/n0")]
    assert after == before
    assert toposcope(["controller", "--once", "--kubeconfig", str(api.kubeconfig)]) == 0
    written = api.get(f"{BINDINGS}/cluster")["spec"]["levels"]
    plus = "".join(line[1:] + "\n" for line in shown.splitlines() if line.startswith("+") and line[1:4] != "++ ")
    assert yaml.safe_load(plus.partition("status:")[0])["spec"]["levels"] == written
    capsys.readouterr()
    assert toposcope(["controller", "--once", "--dry-run", "--kubeconfig", str(api.kubeconfig)]) == 0
    assert capsys.readouterr().out == ""


def test_nothing_gets_past_a_client_that_only_reads(api: ApiUnderTest) -> None:
    client = ReadOnlyClient(load(str(api.kubeconfig)))
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    path = "/api/v1/namespaces/default/configmaps"
    client.read(Request("POST", path, {"dryRun": "All"}, body))
    with pytest.raises(KubeError, match=r"--dry-run: POST .* is not sent"):
        client.read(Request("POST", path, {}, body))
    client.close()
    assert api.get(path)["items"] == []
