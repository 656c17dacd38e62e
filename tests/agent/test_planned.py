"""What ClusterTopologies ask for on an agent's own Node: written, taken over, kept and removed by the agent alone."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.kube.scripted import ScriptedServer, answer, chunked
from tests.support.api import NODES, ApiUnderTest, Clients, create_namespace, node
from tests.support.cluster import BLOCK, RACK, ZONE
from tests.support.machines import probed
from tests.support.publishing import levels
from tests.support.runtime import WatchRuntime
from tests.support.simulated_node import SimulatedNode
from toposcope.agent.describe import Description, describe, unknown
from toposcope.agent.labels import NO_GPUS
from toposcope.agent.plan_watch import PlanWatch
from toposcope.agent.planned import Planner
from toposcope.agent.publish import NodePublisher
from toposcope.api.label_keys import GPUS, SLINKY
from toposcope.api.requirement import Requirement
from toposcope.cli.main import main
from toposcope.integrations.node_plan import FIELD, NodePlan, PlannedTopology, encode
from toposcope.integrations.slurm.names import NamedLevel, SlurmNames
from toposcope.simulator.profile import load_profile
from toposcope.text import compact

NODE = f"{NODES}/n1"
RACKS = "gpu.topology/unique-rack"
PLACE = {ZONE: "z", BLOCK: "b1", RACK: "r1"}
SLURM = SlurmNames((NamedLevel("rack", RACK),), (), NamedLevel("rack", RACK))
UNIT = "cluster-tree:r1,cluster-block:r1"
NOTHING = NodePlan()


def plan(**fields: Any) -> NodePlan:
    """One ClusterTopology that asks for unique racks and Slinky's annotation, but for these fields."""
    asked: dict[str, Any] = {
        "selector": (),
        "levels": levels(ZONE, BLOCK, RACK),
        "unique": ("rack",),
        "annotates": True,
        "slurm": SLURM,
        **fields,
    }
    topology = PlannedTopology("cluster", **asked)
    return NodePlan((topology,))


@pytest.fixture
def description(tmp_path: Path) -> Description:
    raw = probed(load_profile("dgx-h200"), tmp_path)
    return describe(raw, "n1", None)


class Site:
    """A Node and its agent's publisher."""

    def __init__(self, api: ApiUnderTest, clients: Clients, description: Description) -> None:
        self.api = api
        self.description = description
        self._clients = clients
        registered = node("n1", labels=PLACE, annotations={"foreign": "stays"})
        api.create(NODES, registered)
        self.restart()

    def restart(self, *, unique: bool = True, slinky: bool = True) -> None:
        planner = Planner("n1", can_write_unique=unique, can_write_slinky=slinky)
        self.publisher = NodePublisher(self._clients(), "n1", planner=planner)

    def turn(self, description: Description | None = None) -> bool:
        """Look at the Node and write what is pending, as the loop does; whether there was something."""
        description = description or self.description
        self.publisher.refresh()
        pending = self.publisher.is_pending(description)
        if pending:
            self.publisher.publish(description)
        return pending

    def follow(self, wanted: NodePlan) -> bool:
        self.publisher.follow(wanted)
        return self.turn()

    @property
    def metadata(self) -> dict[str, Any]:
        """That of the Node, as the API server has it."""
        metadata: dict[str, Any] = self.api.get(NODE)["metadata"]
        return metadata

    def carries(self) -> tuple[str | None, str | None]:
        """The label of unique racks, and Slinky's annotation."""
        metadata = self.metadata
        label = metadata["labels"].get(RACKS)
        annotation = metadata["annotations"].get(SLINKY)
        return label, annotation

    def formerly(self, label: str | None = "z.b1.r1", annotation: str | None = UNIT) -> None:
        """A controller of a former version writes what it was asked for."""
        if label:
            body = {"metadata": {"labels": {RACKS: label}}}
            self.api.patch(f"{NODE}?fieldManager=toposcope-controller", body)
        if annotation:
            applied = node("n1", annotations={SLINKY: annotation})
            code, _answer = self.api.apply(NODE, applied, "toposcope-controller")
            assert code == 200


@pytest.fixture
def site(api: ApiUnderTest, clients: Clients, description: Description) -> Site:
    return Site(api, clients, description)


def test_agent_writes_what_the_plan_wants_once(site: Site) -> None:
    assert site.follow(plan())
    assert site.carries() == ("z.b1.r1", UNIT)
    assert not site.turn()
    assert not site.follow(plan())


def test_labels_of_its_own_count_before_they_are_there(site: Site) -> None:
    """A new Node gets everything by one write: the usual selector asks for a label that the agent writes."""
    has_gpus = Requirement(GPUS, "Exists")
    site.follow(plan(selector=(has_gpus,)))
    assert site.carries() == ("z.b1.r1", UNIT)


def test_values_that_the_plan_no_longer_wants_are_removed(site: Site) -> None:
    site.follow(plan())
    site.follow(plan(unique=(), annotates=False))
    assert site.carries() == (None, None)

    site.follow(plan())
    site.follow(NOTHING)
    assert site.carries() == (None, None)
    assert site.metadata["annotations"]["foreign"] == "stays"
    assert not site.turn()


def test_label_of_a_level_gone_from_the_plan_is_removed(site: Site) -> None:
    site.follow(plan(unique=("rack", "block")))
    site.follow(plan(unique=("block",)))
    labels = site.metadata["labels"]
    assert RACKS not in labels
    assert labels["gpu.topology/unique-block"] == "z.b1"


def test_values_stay_without_a_plan(site: Site) -> None:
    site.formerly("old", "old")
    site.turn()
    assert site.carries() == ("old", "old")
    site.follow(plan())
    site.restart()
    site.turn()
    assert site.carries() == ("z.b1.r1", UNIT)


@pytest.mark.parametrize(
    ("wanted", "carried"),
    [
        pytest.param(plan(), ("z.b1.r1", UNIT), id="the-same"),
        pytest.param(NOTHING, (None, None), id="nothing"),
    ],
)
def test_values_of_an_earlier_controller_are_taken_over(
    site: Site, wanted: NodePlan, carried: tuple[str | None, str | None]
) -> None:
    site.formerly()
    site.turn()
    site.follow(wanted)
    assert site.carries() == carried
    assert not site.turn()

    site.follow(NOTHING)
    assert site.carries() == (None, None)


def test_stale_values_of_an_earlier_controller_are_replaced(site: Site) -> None:
    site.formerly("z.b9.r9", "cluster-tree:r9")
    site.follow(plan())
    assert site.carries() == ("z.b1.r1", UNIT)
    assert not site.turn()


def test_value_of_an_unknown_level_stays(site: Site) -> None:
    site.follow(plan())
    without_racks = plan(levels=levels(ZONE), slurm=None)
    site.follow(without_racks)
    assert site.carries() == ("z.b1.r1", UNIT)


def test_incomplete_plan_removes_nothing(site: Site) -> None:
    site.formerly("another", "another")
    incomplete = NodePlan(complete=False)
    site.follow(incomplete)
    assert site.carries() == ("another", "another")


def test_node_that_loses_a_level_loses_its_values(site: Site) -> None:
    site.follow(plan())
    body = {"metadata": {"labels": {RACK: None}}}
    site.api.patch(NODE, body)
    assert site.turn()
    assert site.carries() == (None, None)


def test_node_without_gpus_loses_its_values(site: Site) -> None:
    has_gpus = Requirement(GPUS, "Exists")
    site.follow(plan(selector=(has_gpus,)))
    without_gpus = site.description._replace(
        topology=None,
        labels=NO_GPUS,
        annotations={},
    )
    site.turn(without_gpus)
    assert site.carries() == (None, None)


def test_values_stay_while_the_hardware_does_not_answer(site: Site) -> None:
    site.follow(plan())
    hanging = unknown("hang", "no answer")
    site.turn(hanging)
    assert site.carries() == ("z.b1.r1", UNIT)


# Slinky's annotation may have another owner.


def by_hand(site: Site, value: str) -> None:
    body = {"metadata": {"annotations": {SLINKY: value}}}
    site.api.patch(f"{NODE}?fieldManager=kubectl-annotate", body)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = []
    for record in caplog.records:
        if record.levelno == logging.WARNING:
            messages.append(record.message)
    return messages


def test_another_owners_annotation_stays_and_the_label_is_written(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    by_hand(site, "mine")
    site.follow(plan())
    assert site.carries() == ("z.b1.r1", "mine")
    assert not site.turn()

    site.follow(NOTHING)
    assert site.carries() == (None, "mine")
    why = "because kubectl-annotate owns it; remove it to have"
    assert warnings_in(caplog) == [f"annotation {SLINKY} stays 'mine', {why} {UNIT!r} written"]


def test_annotation_taken_by_another_owner_is_given_up_until_it_is_gone(site: Site) -> None:
    site.follow(plan())
    by_hand(site, "mine")
    site.turn()
    _label, annotation = site.carries()
    assert annotation == "mine"

    body = {"metadata": {"annotations": {SLINKY: None}}}
    site.api.patch(NODE, body)
    assert site.turn()
    _label, annotation = site.carries()
    assert annotation == UNIT


def test_owner_that_comes_during_a_write_keeps_the_annotation(site: Site) -> None:
    site.publisher.refresh()
    by_hand(site, "mine")  # after the Node was read
    site.publisher.follow(plan())
    site.publisher.publish(site.description)
    assert site.carries() == ("z.b1.r1", "mine")


def test_annotation_without_owners_is_ours_only_with_our_value(site: Site) -> None:
    for value, remaining in (("mine", "mine"), (UNIT, None)):
        metadata = {
            "annotations": {SLINKY: value},
            "managedFields": [{}],
        }
        site.api.patch(NODE, {"metadata": metadata})
        site.follow(plan())
        site.follow(NOTHING)
        _label, annotation = site.carries()
        assert annotation == remaining


# Opt-in: two flags.


@pytest.mark.parametrize(
    ("unique", "slinky"),
    [
        pytest.param(True, False, id="label-alone"),
        pytest.param(False, True, id="annotation-alone"),
        pytest.param(False, False, id="neither"),
    ],
)
def test_agent_writes_only_what_its_flags_allow(site: Site, unique: bool, slinky: bool) -> None:
    site.restart(unique=unique, slinky=slinky)
    site.follow(plan())
    label, annotation = site.carries()
    assert label == ("z.b1.r1" if unique else None)
    assert annotation == (UNIT if slinky else None)


def test_agent_without_its_flags_takes_back_only_its_own(site: Site) -> None:
    site.follow(plan())
    site.restart(unique=False, slinky=False)
    assert site.turn()
    assert site.carries() == (None, None)

    site.formerly("theirs", "theirs")
    assert not site.turn()
    assert site.carries() == ("theirs", "theirs")


def test_cleanup_leaves_another_owners_annotation(site: Site) -> None:
    site.follow(plan())
    site.formerly(annotation=None)
    site.publisher.cleanup()
    assert site.carries() == (None, None)
    by_hand(site, "mine")
    site.publisher.cleanup()
    assert site.carries() == (None, "mine")


# When it is written.


def test_all_agents_do_not_write_at_the_moment_a_plan_changes(tmp_path: Path) -> None:
    """Each waits a random part of the spread."""
    waits = []
    for seed in range(40):
        folder = tmp_path / str(seed)
        simulated = SimulatedNode.of("t4-1", folder, seed=seed, spread=30.0)
        agent = simulated.agent
        agent.sync()
        simulated.seconds += 100.0
        agent.sync()
        agent.plan_changed(NOTHING)
        waits.append(agent.seconds_until_sync())
    shortest = min(waits)
    longest = max(waits)
    assert shortest >= 5.0  # no two probes within five seconds
    assert longest <= 30.0
    assert longest - shortest > 20.0
    assert len(set(waits)) > 30


def test_newest_of_several_plans_counts_at_the_time_of_the_first(tmp_path: Path) -> None:
    simulated = SimulatedNode.of("t4-1", tmp_path, spread=30.0)
    followed: list[NodePlan] = []
    simulated.api.follow = followed.append  # type: ignore[attr-defined]
    agent = simulated.agent
    agent.sync()
    agent.plan_changed(NOTHING)
    due = agent._plan_at
    simulated.seconds += 1.0
    agent.plan_changed(plan())
    assert agent._plan_at == due

    simulated.seconds += 30.0
    agent.sync()
    agent.sync()
    assert followed == [plan()]


# The watch of the plan.


def event(kind: str, text: object) -> bytes:
    """An event of the plan's ConfigMap with this text; None: without any."""
    config_map: dict[str, Any] = {
        "kind": "ConfigMap",
        "metadata": {"name": "toposcope-node-plan", "uid": "u"},
    }
    if text is not None:
        config_map["data"] = {FIELD: text}
    line = compact({"type": kind, "object": config_map})
    return line.encode() + b"\n"


def watched(server: ScriptedServer, pauses: int) -> list[NodePlan]:
    delivered: list[NodePlan] = []
    watch = PlanWatch(
        server.client(),
        "toposcope-system",
        delivered.append,
        runtime=WatchRuntime(pauses),
    )
    watch.run()
    return delivered


def test_each_plan_is_delivered_once(caplog: pytest.LogCaptureFixture) -> None:
    first_watch = [
        event("ADDED", encode(plan())),
        event("MODIFIED", encode(plan())),
        event("MODIFIED", encode(NOTHING)),
    ]
    second_watch = event("ADDED", encode(NOTHING))
    answers = [
        chunked(*first_watch),
        chunked(second_watch),
    ]
    with ScriptedServer(answers) as server:
        delivered = watched(server, 2)
    assert delivered == [plan(), NOTHING]

    target = server.received[0].target
    assert target.startswith("/api/v1/namespaces/toposcope-system/configmaps?watch=true")
    assert "fieldSelector=metadata.name%3Dtoposcope-node-plan&resourceVersion=0" in target
    for record in caplog.records:
        assert record.levelno < logging.WARNING, record.message


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(event("DELETED", encode(plan())), id="deleted"),
        pytest.param(event("MODIFIED", None), id="empty"),
        pytest.param(event("MODIFIED", "{"), id="garbage"),
        pytest.param(event("MODIFIED", '{"version":2}'), id="another-version"),
        pytest.param(event("MODIFIED", 7), id="a-number"),
        pytest.param(b"nonsense\n", id="no-event"),
    ],
)
def test_malformed_plan_leaves_the_last_one_in_force(bad: bytes) -> None:
    good = event("ADDED", encode(plan()))
    with ScriptedServer([chunked(good, bad)]) as server:
        delivered = watched(server, 1)
    assert delivered == [plan()]


def test_agent_that_may_not_read_the_plan_logs_it_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agent")
    status = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}'
    refusal = answer(status, "403 Forbidden")
    with ScriptedServer([refusal] * 3) as server:
        delivered = watched(server, 3)
    assert delivered == []

    told = []
    for record in caplog.records:
        if record.message.startswith("no watch of ConfigMap"):
            told.append(record.message)
    (message,) = told
    assert "labels and annotations that ClusterTopologies ask for stay unchanged" in message


def test_agent_that_runs_once_reads_the_plan_first(api: ApiUnderTest) -> None:
    api.create(NODES, node("n1", labels=PLACE))
    run = [
        "agent",
        "--once",
        "--unique-values",
        "--slinky",
        "--profile",
        "dgx-h200",
        "--node-name",
        "n1",
        "--kubeconfig",
        str(api.kubeconfig),
    ]
    assert main(run) == 0
    metadata = api.get(NODE)["metadata"]
    assert SLINKY not in (metadata.get("annotations") or {})

    create_namespace(api, "toposcope-system")
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "toposcope-node-plan"},
        "data": {FIELD: encode(plan())},
    }
    api.create("/api/v1/namespaces/toposcope-system/configmaps", config_map)
    assert main(run) == 0
    metadata = api.get(NODE)["metadata"]
    assert metadata["labels"][RACKS] == "z.b1.r1"
    assert metadata["annotations"][SLINKY] == UNIT
