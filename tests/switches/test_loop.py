"""The whole program on a simulated /sys, with frames, first hops and a clock of its own, against an API server."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.controller import make_topology, share_crd
from tests.support.lldp import of_switch
from tests.support.publishing import Time
from tests.support.tables import named_objects
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.neighbours import Neighbour
from toposcope.kube.client import ApiClient
from toposcope.kube.config import load
from toposcope.kube.errors import AnswerTooLargeError, KubeError, UnreachableError
from toposcope.switches.infiniband import MadError
from toposcope.switches.loop import Switches
from toposcope.switches.ports import NicPorts, read_ports
from toposcope.switches.publish import MANAGER, Publisher
from toposcope.switches.run import LARGEST_ANSWER

SPINE = Neighbour("ib-leaf-1", "guid:b83fd20300000001", "7", "infiniband")


class Machine:
    """A node with two Ethernet NICs and one of InfiniBand, and what comes in there, whose clock tests turn."""

    def __init__(self, client: ApiClient, api: ApiUnderTest) -> None:
        self.api = api
        self.time = Time()
        self.time.seconds = 1000.0
        self.joined: list[str] = []
        self.coming: list[tuple[str, bytes]] = []
        self.fabric: Neighbour | OSError | MadError | None = SPINE
        self.ports = [
            NicPorts("mlx5_0", "eth0", True, ()),
            NicPorts("mlx5_1", "eth1", True, ()),
            NicPorts("mlx5_2", "", False, (("umad0", 1),)),
        ]
        self.program = Switches(
            lambda: self.ports,
            self,  # type: ignore[arg-type]
            self._hop,
            Publisher(client, "n1"),
            interval=30.0,
            runtime=self.time,
        )

    def join(self, netdevs: Iterable[str]) -> None:
        self.joined = list(netdevs)

    def frames(self) -> Iterator[tuple[str, bytes]]:
        while self.coming:
            yield self.coming.pop(0)

    def _hop(self, device: str, port: int) -> Neighbour | None:
        assert (device, port) == ("/dev/infiniband/umad0", 1)
        if isinstance(self.fabric, Exception):
            raise self.fabric
        return self.fabric

    def hears(self, netdev: str, switch: str = "leaf-01", **more: Any) -> None:
        self.coming.append((netdev, of_switch(switch, "b8:59:9f:00:00:01", "Ethernet1/3", **more)))

    def passes(self, seconds: float) -> None:
        until = self.time.seconds + seconds
        while self.time.seconds <= until:
            self.program.turn()
            self.time.seconds += min(self.program.seconds_until_turn(), until - self.time.seconds + 0.1)

    @property
    def metadata(self) -> dict[str, Any]:
        return self.api.get(f"{NODES}/n1")["metadata"]

    @property
    def written(self) -> Any:
        text = self.metadata["annotations"].get(SWITCHES)
        return text and json.loads(text)


@pytest.fixture
def machine(api: ApiUnderTest, clients: Clients) -> Machine:
    api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    return Machine(clients(), api)


ETHERNET = {"switch": "leaf-01", "id": "mac:b8:59:9f:00:00:01", "port": "Ethernet1/3", "by": "lldp"}


def test_all_neighbours_are_written_as_soon_as_they_are_known(machine: Machine) -> None:
    machine.passes(1)
    assert machine.joined == ["eth0", "eth1"]
    machine.hears("eth0")
    machine.passes(30)
    assert not machine.written  # the other may still speak
    machine.hears("eth1", "leaf-02")
    machine.hears("docker0", "elsewhere")
    machine.passes(31)
    assert machine.written == {
        "mlx5_0": ETHERNET,
        "mlx5_1": {**ETHERNET, "switch": "leaf-02"},
        "mlx5_2": SPINE._asdict(),
    }
    (ours,) = [entry for entry in machine.metadata["managedFields"] if entry["manager"] == MANAGER]
    assert ours["fieldsV1"] == {"f:metadata": {"f:annotations": {f"f:{SWITCHES}": {}}}}


@pytest.mark.regression
def test_silence_is_unknown_after_two_minutes_and_at_rest_nothing_is_written(machine: Machine) -> None:
    machine.hears("eth0", ttl=65535)
    machine.passes(155)
    assert machine.written == {"mlx5_0": ETHERNET, "mlx5_1": None, "mlx5_2": SPINE._asdict()}
    version = machine.metadata["resourceVersion"]
    machine.passes(3600)
    assert machine.metadata["resourceVersion"] == version


@pytest.mark.regression
@pytest.mark.parametrize("lost", ["expired", "goodbye", "no link", "interface gone"])
def test_a_neighbour_that_is_lost_becomes_null_and_comes_back(machine: Machine, lost: str) -> None:
    for netdev in ("eth0", "eth1"):
        machine.hears(netdev, ttl=600)
    machine.passes(31)
    if lost == "expired":
        machine.hears("eth0", ttl=10)
    elif lost == "goodbye":
        machine.hears("eth0", ttl=0)
    else:
        netdev = "eth0" if lost == "no link" else ""
        machine.ports[0] = machine.ports[0]._replace(netdev=netdev, carrier=False)
    machine.passes(61)
    assert machine.written == {"mlx5_0": None, "mlx5_1": ETHERNET, "mlx5_2": SPINE._asdict()}
    machine.ports[0] = NicPorts("mlx5_0", "eth0", True, ())
    machine.hears("eth0")
    machine.passes(91)
    assert machine.written["mlx5_0"] == ETHERNET


def test_a_flapping_port_is_at_most_one_write_a_minute_and_garbage_one_line(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    machine.hears("eth1", ttl=65535)
    machine.coming += [("eth1", b"garbage"), ("eth1", b"")]
    versions = set()
    for turn in range(40):
        machine.hears("eth0", f"leaf-{turn}")
        machine.passes(15)
        versions.add(machine.metadata["resourceVersion"])
    assert 5 < len(versions) <= 1 + 600 // 60 + 1
    assert caplog.text.count("dropped") == 1


@pytest.mark.parametrize("failure", [PermissionError(1, "Operation not permitted"), MadError("no answer"), None])
def test_a_fabric_that_does_not_answer_is_unknown_and_without_nics_there_is_no_annotation(
    machine: Machine, failure: OSError | MadError | None, caplog: pytest.LogCaptureFixture
) -> None:
    machine.fabric = failure
    machine.passes(300)
    assert machine.written == {"mlx5_0": None, "mlx5_1": None, "mlx5_2": None}
    assert caplog.text.count("cannot ask for its neighbour") == (failure is not None)
    machine.ports = []
    machine.passes(120)
    assert machine.metadata["annotations"] == {"foreign": "stays"}


def test_what_others_changed_is_repaired_and_a_new_node_of_the_name_gets_its_own(machine: Machine) -> None:
    machine.hears("eth0", ttl=65535)
    machine.hears("eth1", ttl=65535)
    machine.passes(61)
    right = machine.written
    tampered = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {SWITCHES: "{}"}}}
    assert machine.api.apply(f"{NODES}/n1", tampered, force=True)[0] == 200
    machine.passes(800)
    assert machine.written == right
    machine.api.request("DELETE", f"{NODES}/n1")
    machine.passes(800)  # not found, with back-off
    machine.api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    machine.passes(800)
    assert machine.written == right


def test_a_cable_in_the_wrong_switch_has_the_expected_one_beside_it(machine: Machine) -> None:
    machine.hears("eth0", ttl=65535)
    machine.hears("eth1", "spine", ttl=65535)
    machine.passes(61)  # the kind is not served: no reason not to write
    before = machine.written
    share_crd(machine.api)
    for number in range(18):
        make_topology(machine.api, f"t{number:02}")
    finding = {"node": "n1", "nic": "mlx5_1", "switch": "spine", "port": "Ethernet1/3", "expected": "leaf-02"}
    stale = {**finding, "nic": "mlx5_0", "switch": "leaf-01", "port": "Ethernet1/4"}
    others = [{**finding, "node": "n2", "expected": "leaf-03"}, {**finding, "nic": "mlx5_9"}]
    rails = {"nodes": 9, "miscabledRails": 4, "miscabled": [finding, stale, *others]}
    machine.api.patch(f"{PATH}/t17/status", {"status": {"rails": rails}})
    machine.passes(800)
    assert machine.written == {**before, "mlx5_1": {**before["mlx5_1"], "expected": "leaf-02"}}
    machine.hears("eth1", "leaf-02", ttl=65535)
    machine.passes(61)
    assert machine.written == {**before, "mlx5_1": {**ETHERNET, "switch": "leaf-02"}}
    machine.hears("eth1", "spine", ttl=65535)
    machine.api.patch(f"{PATH}/t17/status", {"status": {"rails": None}})
    machine.passes(800)
    assert machine.written["mlx5_1"]["expected"]  # two pages are read half as often
    machine.passes(700)
    assert machine.written == before


@pytest.mark.parametrize("body", [b"{}", b"[]", b"null", b'"x"', b'{"metadata":null}', b'{"metadata":{}}', b"<html>"])
@pytest.mark.parametrize("spoiled", ["nodes", "clustertopologies"])
def test_answers_of_something_else_than_an_api_server_end_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, spoiled: str, body: bytes
) -> None:
    share_crd(machine.api)
    read = ApiClient.read
    with monkeypatch.context() as patched:
        patched.setattr(
            ApiClient, "read", lambda self, request: body if spoiled in request.path else read(self, request)
        )
        machine.passes(300)
    machine.passes(800)
    assert machine.written == {"mlx5_0": None, "mlx5_1": None, "mlx5_2": SPINE._asdict()}


def test_large_topologies_of_others_stop_neither_reading_nor_writing(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    client = ApiClient(load(str(api.kubeconfig)), largest=LARGEST_ANSWER)
    machine = Machine(client, api)
    share_crd(machine.api)
    for number in range(20):
        made = make_topology(machine.api, f"bloat{number:02}", nodeSelector={"matchLabels": {"no": "such"}})
        annotations = {"example.com/note": "x" * 260_000}
        machine.api.patch(f"{PATH}/{made['metadata']['name']}", {"metadata": {"annotations": annotations}})
    make_topology(machine.api, "cluster")
    finding = {"node": "n1", "nic": "mlx5_1", "switch": "spine", "port": "Ethernet1/3", "expected": "leaf-02"}
    rails = {"nodes": 9, "miscabledRails": 1, "miscabled": [finding]}
    machine.api.patch(f"{PATH}/cluster/status", {"status": {"rails": rails}})
    machine.hears("eth0", ttl=65535)
    machine.hears("eth1", "spine", ttl=65535)
    machine.passes(61)
    assert machine.written["mlx5_1"]["expected"] == "leaf-02"
    client.close()


@pytest.mark.parametrize("failure", [UnreachableError("no answer"), AnswerTooLargeError("too large")], ids=str)
def test_topologies_that_cannot_be_read_are_no_reason_not_to_write(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, failure: KubeError
) -> None:
    def fails(_publisher: Publisher) -> None:
        raise failure

    monkeypatch.setattr(Publisher, "miscabled", fails)
    machine.hears("eth0", ttl=65535)
    machine.passes(300)
    assert machine.written["mlx5_0"]["switch"] == "leaf-01"


@pytest.mark.regression
def test_nothing_is_written_before_the_policy_has_refused_what_it_must(machine: Machine) -> None:
    class Confinement:
        confined: bool | None = None

        def check(self) -> None: ...
        def ready(self) -> str:
            return "not confined"

    machine.program._confinement = confinement = Confinement()  # type: ignore[assignment]
    machine.passes(300)
    assert machine.written is None
    confinement.confined = True
    machine.passes(60)
    assert machine.written is not None


def test_interfaces_and_umads_of_ports(tmp_path: Path) -> None:
    for name, text in named_objects("ports.yaml").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert read_ports(tmp_path) == [
        NicPorts("mlx4_0", "enp1d1", True, ()),
        NicPorts("mlx5_2", "ens2f0np0", True, ()),
        NicPorts("mlx5_3", "", False, ()),
        NicPorts("mlx5_10", "", False, (("umad0", 1),)),
    ]
