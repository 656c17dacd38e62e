"""The whole program on a simulated /sys, with frames, first hops and a clock of its own, against an API server."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from tests.support.api import NODES, ApiUnderTest, Clients, node
from tests.support.controller import make_topology, share_crd
from tests.support.lldp import of_switch
from tests.support.publishing import Time
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import SWITCHES
from toposcope.hardware.neighbours import Neighbour
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.errors import AnswerTooLargeError, KubeError, UnreachableError
from toposcope.switches.infiniband import MadError
from toposcope.switches.loop import Switches
from toposcope.switches.ports import NicPorts
from toposcope.switches.publish import MANAGER, SwitchesPublisher
from toposcope.switches.run import MOST_ANSWER_BYTES

FIRST_PORT = NicPorts("mlx5_0", "eth0", True, ())
FOREVER = 65535
"""The longest time to live."""
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
        self.ports = [FIRST_PORT, NicPorts("mlx5_1", "eth1", True, ()), NicPorts("mlx5_2", "", False, (("umad0", 1),))]
        self.program = Switches(
            lambda: self.ports,
            self,  # type: ignore[arg-type]
            self._hop,
            SwitchesPublisher(client, "n1"),
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

    def hears(self, netdev: str, switch: str = "leaf-01", ttl: int = 120) -> None:
        """A switch sends a frame to an interface."""
        octets = of_switch(switch, "b8:59:9f:00:00:01", "Ethernet1/3", ttl)
        self.coming.append((netdev, octets))

    def run(self, *, seconds: float = 0.0, minutes: float = 0.0) -> None:
        """Let time pass."""
        seconds += 60 * minutes
        until = self.time.seconds + seconds
        while self.time.seconds <= until:
            self.program.turn()
            until_turn = self.program.seconds_until_turn()
            until_end = until - self.time.seconds + 0.1
            self.time.seconds += min(until_turn, until_end)

    @property
    def metadata(self) -> dict[str, Any]:
        """That of its Node."""
        return self.api.get(f"{NODES}/n1")["metadata"]

    @property
    def written(self) -> Any:
        """What the annotation says of each NIC; None without it."""
        annotations = self.metadata["annotations"]
        text = annotations.get(SWITCHES)
        return text and json.loads(text)

    def topology_finds(self, topology: str, *findings: dict[str, str]) -> None:
        """A ClusterTopology's status tells of these miscabled rails."""
        rails = {
            "nodes": 9,
            "miscabledRails": len(findings),
            "miscabled": [*findings],
        }
        body = {"status": {"rails": rails}}
        self.api.patch(f"{PATH}/{topology}/status", body)


@pytest.fixture
def machine(api: ApiUnderTest, clients: Clients) -> Machine:
    api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    return Machine(clients(), api)


ETHERNET = {"switch": "leaf-01", "id": "mac:b8:59:9f:00:00:01", "port": "Ethernet1/3", "by": "lldp"}
MISCABLED = {"node": "n1", "nic": "mlx5_1", "switch": "spine", "port": "Ethernet1/3", "expected": "leaf-02"}


def test_neighbours_are_written_as_soon_as_all_are_known(machine: Machine) -> None:
    machine.run(seconds=1)
    assert machine.joined == ["eth0", "eth1"]
    machine.hears("eth0")
    machine.run(seconds=30)
    assert not machine.written  # the other may still speak

    machine.hears("eth1", "leaf-02")
    machine.hears("docker0", "elsewhere")
    machine.run(seconds=31)
    assert machine.written == {
        "mlx5_0": ETHERNET,
        "mlx5_1": {**ETHERNET, "switch": "leaf-02"},
        "mlx5_2": SPINE._asdict(),
    }
    managers = machine.metadata["managedFields"]
    (ours,) = [entry for entry in managers if entry["manager"] == MANAGER]
    assert ours["fieldsV1"] == {"f:metadata": {"f:annotations": {f"f:{SWITCHES}": {}}}}


@pytest.mark.regression
def test_silence_is_unknown_after_two_minutes_and_written_once(machine: Machine) -> None:
    machine.hears("eth0", ttl=FOREVER)
    machine.run(seconds=155)
    assert machine.written == {
        "mlx5_0": ETHERNET,
        "mlx5_1": None,
        "mlx5_2": SPINE._asdict(),
    }
    version = machine.metadata["resourceVersion"]
    machine.run(minutes=60)
    assert machine.metadata["resourceVersion"] == version


def expires(machine: Machine) -> None:
    machine.hears("eth0", ttl=10)


def says_goodbye(machine: Machine) -> None:
    machine.hears("eth0", ttl=0)


def loses_link(machine: Machine) -> None:
    machine.ports[0] = FIRST_PORT._replace(has_carrier=False)


def loses_interface(machine: Machine) -> None:
    machine.ports[0] = FIRST_PORT._replace(netdev="", has_carrier=False)


@pytest.mark.regression
@pytest.mark.parametrize("lose", [expires, says_goodbye, loses_link, loses_interface])
def test_lost_neighbour_becomes_null_and_comes_back(machine: Machine, lose: Callable[[Machine], None]) -> None:
    machine.hears("eth0", ttl=600)
    machine.hears("eth1", ttl=600)
    machine.run(seconds=31)
    lose(machine)
    machine.run(seconds=61)
    assert machine.written == {
        "mlx5_0": None,
        "mlx5_1": ETHERNET,
        "mlx5_2": SPINE._asdict(),
    }

    machine.ports[0] = FIRST_PORT
    machine.hears("eth0")
    machine.run(seconds=91)
    assert machine.written["mlx5_0"] == ETHERNET


def test_flapping_port_is_at_most_a_write_a_minute_and_garbage_one_line(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    machine.hears("eth1", ttl=FOREVER)
    machine.coming.append(("eth1", b"garbage"))
    machine.coming.append(("eth1", b""))
    versions = set()
    for turn in range(40):
        machine.hears("eth0", f"leaf-{turn}")
        machine.run(seconds=15)
        versions.add(machine.metadata["resourceVersion"])
    assert 5 < len(versions) <= 1 + 600 // 60 + 1
    assert caplog.text.count("dropping") == 1


@pytest.mark.parametrize(
    ("answer", "warnings"),
    [
        pytest.param(PermissionError(1, "Operation not permitted"), 1, id="no-permission"),
        pytest.param(MadError("no answer"), 1, id="no-answer"),
        pytest.param(None, 0, id="no-neighbour"),
    ],
)
def test_fabric_that_does_not_answer_is_unknown(
    machine: Machine, answer: OSError | MadError | None, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    machine.fabric = answer
    machine.run(minutes=5)
    assert machine.written == {
        "mlx5_0": None,
        "mlx5_1": None,
        "mlx5_2": None,
    }
    assert caplog.text.count("cannot query its neighbour") == warnings


def test_node_without_nics_has_no_annotation(machine: Machine) -> None:
    machine.run(minutes=5)
    assert machine.written is not None
    machine.ports = []
    machine.run(minutes=2)
    assert machine.metadata["annotations"] == {"foreign": "stays"}


def test_change_by_others_is_repaired(machine: Machine) -> None:
    machine.hears("eth0", ttl=FOREVER)
    machine.hears("eth1", ttl=FOREVER)
    machine.run(seconds=61)
    right = machine.written
    tampered = node("n1", annotations={SWITCHES: "{}"})
    code, _answer = machine.api.apply(f"{NODES}/n1", tampered, force=True)
    assert code == 200
    assert machine.written == {}

    machine.run(seconds=800)
    assert machine.written == right


def test_recreated_node_gets_its_annotation(machine: Machine) -> None:
    machine.hears("eth0", ttl=FOREVER)
    machine.hears("eth1", ttl=FOREVER)
    machine.run(seconds=61)
    right = machine.written
    machine.api.request("DELETE", f"{NODES}/n1")
    machine.run(seconds=800)  # not found, with back-off
    machine.api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    machine.run(seconds=800)
    assert machine.written == right


def test_cable_in_the_wrong_switch_has_the_expected_one_beside_it(machine: Machine) -> None:
    machine.hears("eth0", ttl=FOREVER)
    machine.hears("eth1", "spine", ttl=FOREVER)
    machine.run(seconds=61)  # the kind is not served: no reason not to write
    before = machine.written

    share_crd(machine.api)
    for number in range(18):
        make_topology(machine.api, f"t{number:02}")
    cabled_elsewhere_by_now = {
        **MISCABLED,
        "nic": "mlx5_0",
        "switch": "leaf-01",
        "port": "Ethernet1/4",
    }
    machine.topology_finds(
        "t17",
        MISCABLED,
        cabled_elsewhere_by_now,
        {**MISCABLED, "node": "n2", "expected": "leaf-03"},
        {**MISCABLED, "nic": "mlx5_9"},
    )
    machine.run(seconds=800)
    assert machine.written == {
        **before,
        "mlx5_1": {**before["mlx5_1"], "expected": "leaf-02"},
    }

    machine.hears("eth1", "leaf-02", ttl=FOREVER)
    machine.run(seconds=61)
    assert machine.written == {
        **before,
        "mlx5_1": {**ETHERNET, "switch": "leaf-02"},
    }

    machine.hears("eth1", "spine", ttl=FOREVER)
    no_rails = {"status": {"rails": None}}
    machine.api.patch(f"{PATH}/t17/status", no_rails)
    machine.run(seconds=800)
    assert machine.written["mlx5_1"]["expected"]  # two pages are read half as often
    machine.run(seconds=700)
    assert machine.written == before


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"{}", id="empty-object"),
        pytest.param(b"[]", id="list"),
        pytest.param(b"null", id="null"),
        pytest.param(b'"x"', id="text"),
        pytest.param(b'{"metadata":null}', id="metadata-null"),
        pytest.param(b'{"metadata":{}}', id="metadata-empty"),
        pytest.param(b"<html>", id="html"),
    ],
)
@pytest.mark.parametrize("spoiled", ["nodes", "clustertopologies"])
def test_answers_of_another_program_end_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, spoiled: str, body: bytes
) -> None:
    read = ApiClient.read

    def read_spoiled(client: ApiClient, request: Request) -> bytes:
        if spoiled in request.path:
            return body
        return read(client, request)

    share_crd(machine.api)
    with monkeypatch.context() as patched:
        patched.setattr(ApiClient, "read", read_spoiled)
        machine.run(minutes=5)
    machine.run(seconds=800)
    assert machine.written == {
        "mlx5_0": None,
        "mlx5_1": None,
        "mlx5_2": SPINE._asdict(),
    }


@pytest.mark.slow
def test_large_topologies_of_others_stop_neither_reading_nor_writing(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1", annotations={"foreign": "stays"}))
    config = load(str(api.kubeconfig))
    client = ApiClient(config, most_bytes=MOST_ANSWER_BYTES)
    machine = Machine(client, api)
    share_crd(machine.api)
    selects_nothing = {"matchLabels": {"no": "such"}}
    note = {"example.com/note": "x" * 260_000}
    for number in range(20):
        name = f"bloat{number:02}"
        make_topology(machine.api, name, nodeSelector=selects_nothing)
        body = {"metadata": {"annotations": note}}
        machine.api.patch(f"{PATH}/{name}", body)
    make_topology(machine.api, "cluster")
    machine.topology_finds("cluster", MISCABLED)
    machine.hears("eth0", ttl=FOREVER)
    machine.hears("eth1", "spine", ttl=FOREVER)
    machine.run(seconds=61)
    assert machine.written["mlx5_1"]["expected"] == "leaf-02"
    client.close()


@pytest.mark.parametrize("failure", [UnreachableError("no answer"), AnswerTooLargeError("too large")], ids=str)
def test_neighbours_are_written_though_topologies_cannot_be_read(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, failure: KubeError
) -> None:
    def fails(_publisher: SwitchesPublisher) -> None:
        raise failure

    monkeypatch.setattr(SwitchesPublisher, "miscabled", fails)
    machine.hears("eth0", ttl=FOREVER)
    machine.run(minutes=5)
    assert machine.written["mlx5_0"]["switch"] == "leaf-01"


@pytest.mark.regression
def test_nothing_is_written_before_the_policy_confines(machine: Machine) -> None:
    class Confinement:
        is_confined: bool | None = None

        def check(self) -> None: ...
        def ready(self) -> str:
            return "not confined"

    machine.program._confinement = confinement = Confinement()  # type: ignore[assignment]
    machine.run(minutes=5)
    assert machine.written is None
    confinement.is_confined = True
    machine.run(minutes=1)
    assert machine.written is not None
