"""A dry run: what it shows is what a real run then does, and nothing is written meanwhile."""

from collections.abc import Callable

import pytest
import yaml

from tests.support.api import NODES, ApiUnderTest
from tests.support.cluster import BLOCK, RACK, ZONE, topology
from tests.support.controller import condition, controller_of, make_node, make_topology, status_of
from tests.support.publishing import BINDINGS, FOUR, Time, WatchedClient, found, install, levels, patch
from toposcope.api.cluster_topology import PATH
from toposcope.cli.main import main as toposcope
from toposcope.controller.loop import Controller
from toposcope.controller.publishers.dry_run import DryRun, ReadOnlyClient, shortened, unified
from toposcope.controller.reconcile import Reconciler
from toposcope.controller.run import make_publishers
from toposcope.integrations.framework.published import Published
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.errors import KubeError
from toposcope.simulator import manifests

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
GROVE_CRD = "grove-clustertopologybindings-alpha10"
KAI_CRD = "kai-topologies-v0.17"
KUEUE_CRD = "kueue-topologies-v0.19"
TOPOLOGY = topology()
ALONE = topology(publish={"grove": "Never"})


class Site:
    """A dry run, and every request that is sent for it."""

    def __init__(self, client: ApiClient) -> None:
        self.time = Time()
        self.sent: list[tuple[str, bool]] = []
        self.dry_runner = DryRun(WatchedClient(client, self._note), make_publishers, self.time)

    def _note(self, request: Request) -> None:
        self.sent.append((request.method, request.query.get("dryRun") == "All"))

    def publish(self, name: str, *keys: str) -> Published:
        return self.dry_runner.publish(name, ALONE if name == "kai" else TOPOLOGY, levels(*keys))

    @property
    def wrote(self) -> bool:
        return any(method != "GET" and not trial for method, trial in self.sent)


@pytest.fixture
def site(clients: Callable[[], ApiClient]) -> Site:
    return Site(clients())


def test_the_server_is_not_asked_twice_for_the_same_trial_within_a_minute(api: ApiUnderTest, site: Site) -> None:
    install(api, GROVE_CRD, KAI_CRD)
    site.publish("grove", *FOUR)
    trials = site.sent.count(("PATCH", True))
    site.publish("grove", *FOUR)
    assert site.sent.count(("PATCH", True)) == trials == 1
    site.time.seconds = 60
    site.publish("grove", *FOUR)
    assert site.sent.count(("PATCH", True)) == 2


def test_a_diff_in_a_status_is_cut_at_a_line_and_says_so() -> None:
    spec = {"levels": [{"domain": f"level-{i}", "key": f"example.com/level-{i}"} for i in range(16)]}
    diff = unified(None, {"kind": "A", "spec": spec}, "a")
    cut = shortened(diff)
    assert len(cut) < 800
    assert cut.splitlines()[-1].startswith("... ")
    shown = len(cut.splitlines()) - 1
    assert cut.splitlines()[-1] == f"... {len(diff.splitlines()) - 2 - shown} more lines"
    assert unified({"spec": spec}, {"spec": spec}, "a") == ""


def cluster(api: ApiUnderTest, **publish: str) -> None:
    """Three nodes and a topology, nothing written yet."""
    api.install_crd(manifests.cluster_topology_crd())
    install(api, GROVE_CRD, KAI_CRD)
    for i in range(3):
        make_node(api, f"n{i}", {ZONE: "z", BLOCK: "b", RACK: f"r{i}"})
    make_topology(api, publish={"kai": "Never", **publish})


def controller(client: ApiClient) -> Controller:
    dry_runner = DryRun(client, make_publishers, Time())
    reconciler = Reconciler(client, make_publishers(client), Time(), dry_run=dry_runner)
    return controller_of(client, reconciler)


def test_a_target_in_dry_run_is_no_failure_and_its_status_shows_the_difference(
    api: ApiUnderTest, clients: Callable[[], ApiClient], caplog: pytest.LogCaptureFixture
) -> None:
    cluster(api, grove="DryRun")
    dry = controller(clients())
    with caplog.at_level("INFO"):
        dry.once()
        dry.once()
    assert found(api, f"{BINDINGS}/cluster") is None
    (entry,) = status_of(api)["published"]
    assert entry["inSync"] is False
    assert entry["message"].startswith("would create:\n")
    assert "+  - domain: zone" in entry["message"]
    published = condition(api, "Published")
    assert (published["status"], published["reason"]) == ("True", "DryRun")
    assert published["message"].endswith("clustertopologybinding.grove.io/cluster would create")
    assert condition(api, "Ready")["status"] == "True"
    assert len([r for r in caplog.records if "would create" in r.getMessage()]) == 1
    # Then for real, and back: what is there stays and is compared.
    patch(api, f"{PATH}/cluster", {"spec": {"publish": {"grove": "Auto"}}})
    dry.once()
    assert condition(api, "Published")["reason"] == "InSync"
    patch(api, f"{PATH}/cluster", {"spec": {"publish": {"grove": "DryRun"}}})
    dry.once()
    assert status_of(api)["published"][0]["inSync"] is True
    patch(api, f"{BINDINGS}/cluster", {"spec": {"levels": [{"domain": "rack", "key": "wrong/rack"}]}})
    dry.once()
    assert status_of(api)["published"][0]["message"].startswith("would change:\n")
    assert len(api.get(f"{BINDINGS}/cluster")["spec"]["levels"]) == 1


def test_the_flag_writes_nothing_at_all_and_prints_what_a_run_would_write(
    api: ApiUnderTest, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster(api)
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
