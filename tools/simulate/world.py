"""The cluster, faults and judge of `make chaos`; all but the programs is simulated.

The programs are assembled by the production code; an agent's worker process is replaced by what the
production probe says of the simulated machine. The store records every change, and the judge looks
at each as it is made.
"""

import contextlib
import copy
import functools
import hashlib
import random
import re
import signal
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, Final, Self, cast

import msgspec

from tools.apiserver.client import AdminApi, Answer
from tools.chaos import cluster, world
from tools.chaos.audit import PublishedWrites, Turns, Write
from tools.chaos.desired import desired_on, timeless
from tools.chaos.machines import Machine
from tools.chaos.observer import Observer, Rules
from tools.chaos.processes import Scale
from tools.chaos.proxy import Mode
from tools.chaos.stand_ins import StandIns
from tools.chaos.violations import Findings, Leaks
from tools.simulate import scheduler
from tools.simulate.levels import Levels
from tools.simulate.network import Network, Weather
from tools.simulate.scheduler import START, Process, Scheduler
from toposcope.agent.describe import describe
from toposcope.agent.loop import Agent, AgentParts
from toposcope.agent.metrics import AgentMetrics
from toposcope.agent.node_watch import NodeWatch
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.nvml.supervisor import ProbeError
from toposcope.agent.options import AgentOptions
from toposcope.agent.plan_watch import PlanWatch
from toposcope.agent.planned import Planner
from toposcope.agent.probe import probe
from toposcope.agent.publish import NodePublisher
from toposcope.agent.raw import RawNode
from toposcope.agent.run import follow
from toposcope.agent.sysfs import Sysfs
from toposcope.controller.options import ControllerOptions
from toposcope.controller.run import assemble
from toposcope.integrations.node_plan import NodePlan
from toposcope.kube.client import ApiClient
from toposcope.kube.credentials import ClusterAccess
from toposcope.kube.runtime import Runtime
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import requests
from toposcope.simulator.apiserver.api import Api
from toposcope.simulator.apiserver.requests import HttpRequest, Response, Route
from toposcope.simulator.apiserver.statuses import Object
from toposcope.simulator.apiserver.store import Key, Store, Stored
from toposcope.simulator.faults import load_faults
from toposcope.simulator.machine import with_identity
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

NAMESPACE: Final = "toposcope-system"
LEASES: Final = "leases.coordination.k8s.io"
KUEUES: Final = "topologies.kueue.x-k8s.io"
ACTORS: Final = (
    *(f"agent-machine-{number}" for number in range(4)),
    "controller-0",
    "controller-1",
)
_HISTORY_REVISIONS: Final = 500
_CLUSTER: Final = ClusterAccess("http://simulated", None, lambda: None, NAMESPACE)
_ELECTING: Final = ControllerOptions(
    None, False, 1.0, None, "text", leader_elect=True, lease_namespace=NAMESPACE, lease_duration=15
)
_NEIGHBOURS_SECONDS: Final = 30.0
"""Seconds between two turns of those who live in the cluster besides us."""
_FIRST_REFUSED_CODE: Final = 300
_FAIR_CHANCE: Final = 0.5
_MOST_WAITS: Final = 60
_JSON: Final = "application/json"
_HOLDER: Final = re.compile(rb'"holderIdentity":"([^"_]*)')
_FREQUENT: Final = {LEASES, "nodes", "events.events.k8s.io"}
_ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:toposcope-"


class Patience(Scale):
    """Production's own timing: a Lease of 15 s, retries up to ten minutes apart."""

    patience = 1500.0
    lease = 15


class RecordedStore(Store):
    """Tells `seen` of each change (storage, object, whether it is gone), and can be set back."""

    longest_silence_seconds = inf

    def __init__(self, runtime: Runtime, on_change: Callable[[str, Stored, bool], None]) -> None:
        super().__init__(_HISTORY_REVISIONS, runtime)
        self._on_change = on_change

    def put(self, storage: str, obj: Mapping[str, Any]) -> Stored:
        item = super().put(storage, obj)
        self._on_change(storage, item, False)
        return item

    def remove(self, storage: str, obj: Mapping[str, Any]) -> Stored:
        item = super().remove(storage, obj)
        self._on_change(storage, item, True)
        return item

    def copy(self) -> tuple[int, dict[str, dict[Key, Stored]]]:
        """What is stored, as a backup of etcd has it."""
        objects = {}
        for name, collection in self._collections.items():
            objects[name] = dict(collection.objects)
        return self.revision, objects

    def restore(self, saved: tuple[int, dict[str, dict[Key, Stored]]]) -> None:
        """Store that, and nothing of what came after it."""
        revision, objects = saved
        self.revision = revision
        for name, collection in self._collections.items():
            before = collection.objects
            stored = dict(objects.get(name, {}))
            collection.objects = stored
            collection.ordered = None
            collection.start += len(collection.changes) + 1
            collection.changes.clear()
            collection.compacted = revision

            gone = before.keys() - stored.keys()
            for key in gone:
                self._on_change(name, before[key], True)
            for item in stored.values():
                self._on_change(name, item, False)


class Server(Api):
    """Refuses that programs change the levels of Kueue's Topology, as most of its versions do.

    By hand it can be done.
    """

    def _save(
        self, request: HttpRequest, route: Route, obj: Object, live: Object | None = None
    ) -> Stored:
        by_hand = not request.headers.get("user-agent")
        if (
            live
            and route.resource.storage == KUEUES
            and live["spec"] != obj["spec"]
            and not by_hand
        ):
            raise requests.invalid(
                route.resource, route.name, [("spec.levels", "Invalid value: field is immutable")]
            )
        return super()._save(request, route, obj, live)


class Admin(AdminApi):
    """The administrator, past the network."""

    def __init__(self, api: Api) -> None:
        super().__init__("embedded", "http://simulated", Path())
        self._api = api

    def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        where, _, query = path.partition("?")
        pairs = {}
        for pair in query.split("&"):
            if pair:
                name, value = pair.split("=")
                pairs[name] = value

        headers = {
            "content-type": options.get("content_type", _JSON),
            "accept": _JSON,
        }
        content = b""
        if body is not None:
            content = msgspec.json.encode(body)
        request = HttpRequest(method, where, pairs, headers, content)
        answer = self._api.handle(request)

        text = b"".join(answer.chunks)
        if answer.content_type != _JSON:
            return Answer(answer.code, {}, text.decode())
        document = msgspec.json.decode(text)
        return Answer(answer.code, {}, document)


@functools.cache
def probed(node: str, profile: str, faults: str) -> RawNode:
    """What the production probe says of a simulated machine."""
    with tempfile.TemporaryDirectory() as folder:
        faults_file = Path(folder) / "faults.yaml"
        faults_file.write_text(faults or "{}", encoding="utf-8")
        sysfs = Path(folder) / "sys"
        machine = with_identity(load_profile(profile), node)
        write_sysfs(machine, sysfs)

        nvml = SimulatedNvml(machine)
        nvml.faults = load_faults(faults_file)
        gateway = Nvml(nvml)
        started = gateway.start()
        return probe(gateway, Sysfs(sysfs), started)


@functools.cache
def labelled(node: str, profile: str, faults: str) -> dict[str, str]:
    """The labels of that machine, as `toposcope discover` has them."""
    return dict(describe(probed(node, profile, faults), node).labels.by_key)


@dataclass
class SimulatedMachine(Machine):
    """A machine whose worker process answers at once, or not at all."""

    faults: str = ""
    rings: Callable[[], object] = bool
    """Tells its agent that something has happened to the hardware."""

    def set_faults(self, faults: str, *, answers: bool = True) -> None:
        if answers:
            self.now.states |= {faults}
        self.faults = faults
        self.rings()

    @property
    def healthy(self) -> dict[str, str]:
        return labelled(self.node, self.profile, "")

    def _possible(self) -> list[dict[str, str]]:
        return [labelled(self.node, self.profile, state) for state in sorted(self._states)]


class Program:
    """A program with all that a fault may act on.

    It is chaos' `Actor` and `Program` of a simulated process.
    """

    def __init__(self, owner: "World", name: str, machine: SimulatedMachine | None) -> None:
        self.name = name
        self.process = Process(name)
        self.process.is_alive = False
        self.births = 0
        self.parts: Any = None
        """What it is made of, for as long as it lives."""
        self.machine = machine
        self.program = self.proxy = self.wall = self
        self._world = owner
        self._is_wanted = False
        self._is_over = False

    def start(self, *_disk: object) -> None:
        self._is_wanted = True
        if self.process.is_alive and not self._is_over:
            return
        off = self.process.off
        self._is_over = False
        self.births += 1

        self.process = Process(self.name)
        self.process.off = off
        self.process.failed = self._failed
        self._world.scheduler.thread(self.process, "main", self._live)

    def _live(self) -> None:
        own = self._world
        machine = scheduler.Machine(own.scheduler, self.process, own.network.connect)
        if self.machine:
            self._live_as_agent(machine, self.machine)
        else:
            with contextlib.ExitStack() as stack:
                self.parts = assemble(_ELECTING, _CLUSTER, stack, machine)
                self.parts.run()
        self._is_over = True

    def _live_as_agent(self, runtime: scheduler.Machine, machine: SimulatedMachine) -> None:
        own = self._world
        client = ApiClient(_CLUSTER, "toposcope-agent", runtime=runtime)
        planner = Planner(machine.node, can_write_unique=True, can_write_slinky=True)
        publisher = NodePublisher(client, machine.node, planner, runtime)
        metrics = AgentMetrics()
        options = AgentOptions(machine.node)
        wake = runtime.event()
        happened: list[str] = []

        def ring() -> None:
            if own.scheduler.rng.random() < _FAIR_CHANCE:  # else it is noticed at the next probe
                happened.append("an event")
                wake.set()

        def event(seconds: float) -> str:
            wake.wait(seconds)
            return happened.pop() if happened else ""

        plans: list[NodePlan] = []

        def plan_changed(plan: NodePlan) -> None:
            plans.append(plan)
            wake.set()

        def node_changed() -> None:
            changes.append(1)
            wake.set()

        changes: list[int] = []

        def woken(seconds: float) -> bool:
            if not wake.wait(seconds):
                return False
            wake.clear()
            if changes:
                changes.clear()
                agent.node_changed()
            if plans:
                agent.plan_changed(plans.pop())
                plans.clear()
            return True

        machine.rings = ring
        worker = cast(Any, Worker(own.scheduler, machine))
        self.parts = agent = Agent(AgentParts(options, worker, publisher, metrics), runtime)
        watch = NodeWatch(
            client,
            machine.node,
            publisher,
            metrics,
            node_changed,
            runtime=runtime,
        )
        watch.start()
        PlanWatch(client, NAMESPACE, plan_changed, runtime=runtime).start()
        follow(agent, lambda: False, event, woken)

    def _failed(self, thread: str, error: BaseException) -> None:
        self._world.findings.add(
            "programs", f"{thread} was ended by {type(error).__name__}: {error}"
        )

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it and leave it so; SIGTERM lets a controller give back its Lease."""
        self._is_wanted = False
        if number is signal.SIGTERM and self.parts is not None and self.process.is_alive:
            end = self.parts.controller.end
            self._world.scheduler.thread(self.process, "signals", end)
            self._world.sleep(20.0)
        self.die()

    def die(self) -> None:
        self._world.scheduler.kill(self.process)
        self.parts = None

    def signal(self, number: signal.Signals) -> None:
        if number is signal.SIGSTOP:
            self._world.network.deliver(self.process)
            self.process.is_stopped = True
        else:
            self._world.scheduler.resume(self.process)

    def write_text(self, off: str, encoding: str) -> None:
        """As a file: by how many seconds the wall clock is off."""
        del encoding
        self.process.off = float(off)

    def died(self) -> str:
        return f"{self.name} ended by itself" if self._is_wanted and self._is_over else ""

    def restart_killed(self) -> None:
        if self._is_wanted and not self.process.is_alive:
            self.start()

    def trouble(self) -> str:
        if self.parts is None:
            return f"{self.name} does not run"
        wrong = self.parts.healthy() or self.parts.ready()
        return f"{self.name}: {wrong}" if wrong else ""

    def leads(self) -> bool:
        return bool(self.parts and self.process.is_alive and self.parts.elector.can_write())

    def size(self) -> None: ...


class Worker:
    """What an agent takes for the process that probes its machine."""

    def __init__(self, clock: Scheduler, machine: SimulatedMachine) -> None:
        self._scheduler = clock
        self._machine = machine

    def probe(self) -> RawNode:
        if not self._is_silent():
            seconds = self._scheduler.rng.uniform(0.01, 0.5)
            self._scheduler.wait(seconds)
        if self._is_silent():
            self._scheduler.wait(10.0)
            raise ProbeError("hang", "no answer within 10 s")
        machine = self._machine
        return probed(machine.node, machine.profile, machine.faults)

    def _is_silent(self) -> bool:
        return self._machine.faults.startswith("calls:")


_MODES: Final = {
    Mode.STALL: Weather(is_stalled=True),
    Mode.SILENT: Weather(is_silent=True),
    Mode.SLOW: Weather(slow=4.0),
    Mode.CUT: Weather(lost=1.0, torn=1.0),
    Mode.REFUSE: Weather(is_refused=True),
    Mode.THROTTLE: Weather(status=429),
}


class Servers:
    """What chaos does to etcd and kube-apiserver, and to proxies."""

    def __init__(self, owner: "World") -> None:
        self._world = owner
        self._network = owner.network

    def kill(self, _name: str) -> None:
        self._network.is_down = True
        self._network.cut()

    def start(self) -> None:
        self._network.is_down = False

    def launch(self) -> None: ...

    def signal(self, _name: str, number: signal.Signals) -> None:
        if number is signal.SIGSTOP:
            self._world.turns.server_stops(self._world.now())
            self._network.stop()
        else:
            self._world.turns.server_goes_on(self._world.now())
            self._network.go_on()

    def compact(self) -> None:
        self._world.store.expire_history()

    def save(self) -> Any:
        return self._world.store.copy()

    def restore(self, saved: Any) -> None:
        self.kill("etcd")
        self._world.store.restore(saved)
        self._world.admin_api.serve_crds()

    def switch(self, program: Program, mode: Mode) -> None:
        process = program.process
        weather = _MODES.get(mode, Weather())
        self._network.weather[program.name] = copy.copy(weather)
        if mode in (Mode.SILENT, Mode.SLOW):
            self._network.silence(process)
        elif mode in (Mode.REFUSE, Mode.CUT):
            self._network.cut(process)


class World(world.World):
    """A context manager; inside, the cluster runs and everything in it is as it should be."""

    def __init__(self, seed: int) -> None:
        self.scale = Patience(look=5.0)
        self.seed = seed
        self.findings = Findings()
        self.leaks = Leaks()
        self.memory = {}
        self.is_settled = False
        """Whether it is known what is desired."""
        self.states: set[int] = set()
        """Hashes of the states that the cluster was in."""
        self.scheduler = Scheduler(random.Random(seed))
        server_runtime = scheduler.ServerRuntime(self.scheduler)
        self.store = RecordedStore(server_runtime, self._seen)
        self._state = 0
        self._changes = 0
        """Since the neighbours' last turn, of what they look at."""
        self.levels = Levels(self)
        self._essences: dict[tuple[str, Key], tuple[Any, int]] = {}
        self._rules: dict[str, Rules] = {}
        """Empty until the observer is there: what the server loads before is judged by none."""
        self.admin_api = Server(self.store, bookmark_interval=60.0)
        self.admin_api.load(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
        )
        self.api = Admin(self.admin_api)
        self.network = Network(self.scheduler, self.admin_api)
        self.network.wrote = self._wrote
        self.network.about_to_write = self._about_to_write
        self._simulated = _machines(self.scale.agents)
        self.machines = [*self._simulated]
        self.contenders = {name for name in ACTORS if name.startswith("controller")}
        self.observer = Observer(self.api, [*self.machines], self.findings)
        self._rules = _rules_by_storage(self.observer)
        self.turns = Turns(self.findings, self.scale.lease)
        self.published_writes = PublishedWrites(self.findings)
        self.published_writes.may_lack = self.levels.may_lack
        self.observer.topologies.may_lack = self.levels.may_lack
        self.actors: dict[str, Any] = {}
        self.desired: dict[str, Any] = {}
        self._desired_later: dict[str, Any] = {}
        self.snapshot: Any = None
        self.servers: Any = Servers(self)
        self.proxies: Any = self.servers
        self.doomed: dict[str, float] = {}
        """Programs that are killed at their next write, and the chance that the server gets it."""

    def monotonic(self) -> float:
        return self.scheduler.now

    def now(self) -> datetime:
        return START + timedelta(seconds=self.scheduler.now)

    def sleep(self, seconds: float) -> None:
        self.scheduler.run(seconds)

    def _seen(self, storage: str, item: Stored, is_gone: bool) -> None:
        """Judge a change, and take down the state that it makes."""
        self._changes += storage not in _FREQUENT
        # What of a Lease matters is cheaper to find: most changes are of Leases.
        document = {} if storage == LEASES else item.decode()
        self.levels.seen(storage, document, is_gone=is_gone)
        rules = self._rules.get(storage)
        if rules and is_gone:
            rules.gone(document)
        elif rules:
            rules.seen(document)
        if storage in _ESSENTIAL:
            essence: Any = None
            if not is_gone and document:
                essence = _essence(document)
            elif not is_gone:
                essence = _HOLDER.findall(item.body)
            self._take_down(storage, item, essence)
        self.scheduler.note(f"{storage} {item.key} {item.revision} {is_gone}")

    def _take_down(self, storage: str, item: Stored, essence: Any) -> None:
        """The state of all essential objects, and of who leads, after one has changed."""
        where = (storage, item.key)
        before, hash_before = self._essences.get(where, (None, 0))
        if essence != before:
            hash_now = 0
            if essence is not None:
                hash_now = _hash([storage, item.key, essence])
            self._essences[where] = (essence, hash_now)
            self._state ^= hash_before ^ hash_now
        leaders = 0
        if self.actors:
            for position, actor in enumerate(self.controllers):
                leaders += actor.program.leads() << position
        self.states.add(self._state ^ leaders)

    def begin_round(self) -> None:
        super().begin_round()
        self.levels.begin_round()

    def _about_to_write(self, process: Process, _request: HttpRequest) -> None:
        if self.doomed.get(process.name) == 0.0:
            self._crash(process)
            process.check()

    def _wrote(self, process: Process, request: HttpRequest, response: Response) -> None:
        name = process.name
        is_stored = response.code < _FIRST_REFUSED_CODE and not request.is_dry_run
        if is_stored:
            is_controller = name.startswith("controller")
            births = 0
            if is_controller:
                births = self.actors[name].program.births
            write = _write(name, request, self.now(), births)
            if is_controller:
                self.turns.judge([write], [])
            if self.is_settled:
                self.published_writes.judge([write])

        chance = self.doomed.get(name)
        if chance == 1.0:
            self._crash(process)

    def crash_at_a_wait(self, name: str) -> None:
        """Kill a program at one of its next waits, wherever in its code that is."""
        actor = self.actors[name]
        process = actor.program.process
        process.waits_left = self.scheduler.rng.randint(1, _MOST_WAITS)
        process.ended = lambda: self._crash(process)

    def _crash(self, process: Process) -> None:
        self.doomed.pop(process.name, None)
        actor = self.actors[process.name]
        program = actor.program
        if program.process is process:
            program.die()
            pause = self.scheduler.rng.uniform(0.5, 30.0)
            self.scheduler.call(pause, program.restart_killed)

    def judge(self) -> None: ...

    def __enter__(self) -> Self:
        self._install()
        for machine in self._simulated:
            name = f"agent-{machine.node}"
            self.actors[name] = Program(self, name, machine)
        for name in sorted(self.contenders):
            self.actors[name] = Program(self, name, None)
        self.stand_ins = StandIns(
            self.api, [machine.node for machine in self.machines], self.levels.passing
        )
        self._neighbours()
        for actor in self.actors.values():
            actor.program.start()
        self._settle_first()
        return self

    def __exit__(self, *_error: object) -> None:
        for actor in self.actors.values():
            actor.program.die()
        self.scheduler.run(0.0)  # so that its threads come to their end

    def _neighbours(self) -> None:
        before, self._changes = self._changes, 0
        self.stand_ins.turn(is_idle=not before)
        self.scheduler.call(_NEIGHBOURS_SECONDS, self._neighbours)

    def _install(self) -> None:
        for crd in (manifests.cluster_topology_crd(), *cluster.crds().values()):
            self.api.install_crd(crd)
        self.populate()

    def _settle_first(self) -> None:
        self._until(
            lambda: not self._node_differences(), "agents label their nodes", self._node_differences
        )
        if not _WANTED:
            _WANTED.extend(undisturbed(self.api, is_late=late) for late in (False, True))
        self.desired, self._desired_later = _WANTED
        self._judge_by(self.desired)
        self._until(lambda: not self.unsettled(), "the controller publishes", self.unsettled)
        self.is_settled = True

    def rotate(self, actor: Any) -> None:
        self.network.weather[actor.name] = Weather(status=401)

    def write_token(self, actor: Any) -> None:
        self.network.weather[actor.name] = Weather()


def _machines(agents: int) -> list[SimulatedMachine]:
    """The machines of chaos, without files."""
    simulated = []
    with tempfile.TemporaryDirectory() as folder:
        machines = cluster.machines(agents, Path(folder))
    for machine in machines:
        copied = SimulatedMachine(
            machine.node,
            machine.profile,
            machine.gpus,
            Path(),
        )
        simulated.append(copied)
    return simulated


def _rules_by_storage(observer: Observer) -> dict[str, Rules]:
    """What judges the objects of each storage."""
    by_path: dict[str, Rules] = {
        cluster.NODES: observer.nodes,
        cluster.TOPOLOGIES: observer.topologies,
        **observer.objects,
    }
    by_storage = {}
    for path, rules in by_path.items():
        storage = _storage(path)
        by_storage[storage] = rules
    return by_storage


_WANTED: list[dict[str, Any]] = []
"""What an undisturbed controller makes of such a cluster: the same for all seeds."""
_ESSENTIAL: Final = frozenset(
    {
        *("nodes", LEASES, "clustertopologies.gpu.topology"),
        *("clustertopologybindings.grove.io", "topologies.kai.scheduler", KUEUES),
    }
)


def undisturbed(api: AdminApi, *, is_late: bool) -> dict[str, Any]:
    """`desired` of chaos, on a server and with a clock of their own."""
    clock = Scheduler(random.Random(0))
    server_runtime = scheduler.ServerRuntime(clock, seed=1)
    store = RecordedStore(server_runtime, lambda *_: None)
    copied = Api(store, bookmark_interval=60.0)
    copied.load(
        {"apiVersion": "v1", "kind": "Node", **node} for node in api.get(cluster.NODES)["items"]
    )
    network = Network(clock, copied)
    options = ControllerOptions(
        None,
        once=True,
        debounce=0.0,
        metrics_port=None,
        log_format="text",
    )

    def once() -> None:
        process = Process("once")

        def work() -> None:
            with contextlib.ExitStack() as stack:
                runtime = scheduler.Machine(clock, process, network.connect)
                assemble(options, _CLUSTER, stack, runtime).controller.once()

        clock.thread(process, "main", work)
        clock.run(600.0)

    return desired_on(api, Admin(copied), once, has_late_grove=is_late)


def _storage(path: str) -> str:
    *_, group, _version, plural = path.split("/")
    if group == "api":
        return plural
    return f"{plural}.{group}"


def _essence(document: dict[str, Any]) -> Any:
    """What matters of an object: not when, nor which revision."""
    return timeless(
        [document["metadata"].get("labels"), document.get("spec"), document.get("status")]
    )


def _hash(what: Any) -> int:
    text = msgspec.json.encode(what, order="sorted")
    digest = hashlib.blake2b(text, digest_size=7).digest()
    return int.from_bytes(digest, "big") << 8


_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def _write(name: str, request: HttpRequest, now: datetime, births: int) -> Write:
    """A line of the audit log. A controller that was started anew is another one."""
    root, *segments = request.path.strip("/").split("/")
    group = ""
    if root != "api":
        group, *segments = segments
    _version, *segments = segments
    if segments[0] == "namespaces" and len(segments) > 2:  # noqa: PLR2004 - something within one
        segments = segments[2:]
    plural, what, part = (*segments, "", "")[:3]

    body = msgspec.json.decode(request.body or b"{}")
    if not what:
        what = body.get("metadata", {}).get("name", "")
    resource = plural
    if part:
        resource = f"{plural}/{part}"
    pod = name
    if births:
        pod = f"{name}#{births}"
    program, _, _ = name.partition("-")
    moment = now.isoformat(timespec="microseconds")
    return Write(
        pod,
        _ACCOUNT + program,
        _VERBS.get(request.method, "delete"),
        group,
        resource,
        what,
        moment,
        moment,
        body,
    )
