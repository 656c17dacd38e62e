"""What simulated programs do, as steps of the models in tools/model, which have to allow each of them.

A trace ends where the models do: they know no etcd that is set back to an older copy.
"""

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final
from unittest.mock import patch

from tools.chaos.cluster import KUEUE, LOST
from tools.chaos.machines import PREFIX, STATE
from tools.simulate.network import SimulatedConnection
from tools.simulate.scheduler import Process
from tools.simulate.world import KUEUES, LEASES, SimulatedMachine, Worker, World, labelled
from toposcope.agent.loop import Agent
from toposcope.api.cluster_topology import MANAGED_BY, TOPOSCOPE, Topology
from toposcope.controller import reconcile
from toposcope.controller.assess.assessment import Evidence
from toposcope.controller.election import Election
from toposcope.controller.memory import Memory
from toposcope.hierarchy.effective_levels import EffectiveLevels, reported
from toposcope.hierarchy.table import table_of
from toposcope.integrations.framework.published import Target
from toposcope.integrations.framework.publishing.immutable_topology import (
    ImmutableTopologyPublisher,
)
from toposcope.simulator.apiserver.requests import Request

_LONGEST: Final = 60_000_000
"""After that much time all that the model counts is over."""
_REQUEST: Final = 5_000_000
"""A write that is older never arrives."""
_REFUSED: Final = 300
_NODES: Final = "/api/v1/nodes/"

Act = Callable[[], Any]


class Trace:
    """Takes down at most so many steps of each subject in a world, as records of TLA+."""

    config: tuple[str, str]
    """The module and the configuration to check it with."""
    watched: tuple[tuple[Any, str], ...]
    """Classes or parts of the world, and those of their methods that `_on_...` is called for, with the original."""

    def __init__(self, world: World, most: int) -> None:
        self._world = world
        self._most = most
        self._steps: defaultdict[str, list[str]] = defaultdict(list)
        self._known: defaultdict[str, list[Any]] = defaultdict(list)
        """Values, each of which has its place as a name: the models know no others."""

    def named(self, subject: str, value: Any) -> str:
        if value not in (known := self._known[subject]):
            known.append(value)
        return str(known.index(value))

    @property
    def records(self) -> list[str]:
        """The steps of one subject after another."""
        return [record for steps in self._steps.values() for record in steps]

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what happens inside."""
        with contextlib.ExitStack() as stack:
            for owner, names in (*self.watched, ("store", "restore")):
                where = getattr(self._world, owner) if isinstance(owner, str) else owner
                for name in names.split():
                    instead = getattr(self, f"_on_{name.strip('_')}")
                    stack.enter_context(
                        patch.object(where, name, _around(getattr(where, name), instead))
                    )
            yield

    def seen(self, subject: str) -> dict[str, Any]:
        """What is to be seen of a subject."""
        raise NotImplementedError

    def note(self, subject: str, action: str, **more: Any) -> None:
        if len(self._steps[subject]) < self._most:
            self._steps[subject].append(tla({"action": action, **more, **self.seen(subject)}))

    def _on_restore(self, act: Act, *_: Any) -> None:
        act()
        self._most = 0

    def _lives(self, process: Process) -> bool:
        """Whether it is the present one of its name."""
        return process.alive and process is self._world.actors[process.name].program.process


def _does(action: str, waits: str) -> Callable[..., Any]:
    def done(self: "LeaseTrace", act: Act, election: Election, *_: Any) -> Any:
        result = act()
        self._waits[_name(election)] = waits
        self._note(action, _name(election))
        return result

    return done


class LeaseTrace(Trace):
    """Of controllers and their Lease; times are in microseconds."""

    config = "LeadershipTrace", "LeadershipSimulated"
    watched = (
        (Election, "__init__ looked claim claimed doubt resign"),
        (SimulatedConnection, "getresponse"),
        *(("network", "serve"), ("scheduler", "kill"), ("store", "remove")),
    )
    _on_looked, _on_claim, _on_claimed = (
        _does("Looked", ""),
        _does("Claim", "claim"),
        _does("Claimed", ""),
    )

    def __init__(self, world: World, most: int) -> None:
        super().__init__(world, most)
        self._at = 0
        self._elections: dict[str, Election] = {}
        self._waits: dict[str, str] = {}
        """What each contender waits for.

        `look`, `claim` that the server has not seen, `stored`, or nothing.
        """
        self._claims: dict[str, Request | None] = {}
        """The last claim that each contender sent."""
        self._writes: Counter[tuple[str, int]] = Counter()
        """On their way: by whom, and since when."""
        self._over: set[str] = set()
        """Who has resigned: of them the model says nothing until the Lease is given back, or they are gone."""
        self._note("Start")

    def _on_init(self, act: Act, election: Election, identity: str, *_: Any) -> None:
        act()
        self._gone(who := identity.partition("_")[0])
        self._elections[who] = election

    def _gone(self, who: str) -> None:
        if self._elections.pop(who, None):
            self._over.discard(who)
            self._waits.pop(who, None)
            self._note("Crash", who)

    def _on_kill(self, act: Act, process: Process) -> None:
        act()
        self._gone(process.name)

    def _on_doubt(self, act: Act, election: Election) -> None:
        act()
        # else a look that the server never saw: none, to the model
        if self._waits.pop(_name(election), ""):
            self._note("Doubt", _name(election))

    def _on_resign(self, act: Act, election: Election, *_: Any) -> Any:
        self._over.add(_name(election))
        return act()

    def _on_getresponse(self, act: Act, connection: SimulatedConnection) -> Any:
        request, who = connection.sent, connection.process.name
        if request is None or request.method == "GET" or who not in self._elections:
            return act()
        if "/leases" in request.path:
            self._claims[who] = request
            return act()
        self._note("Write", who)
        sent = who, self._at
        self._writes[sent] += 1
        try:
            return act()
        finally:
            self._writes[sent] -= 1
            age = self._now() - sent[1]
            if connection.process.alive and not self._writes[sent] and age < _REQUEST:
                self._note("TakeWrite", who, age)

    def _on_serve(self, act: Act, process: Process, request: Request) -> Any:
        response = act()
        if process.name not in self._world.contenders or "/leases" not in request.path:
            return response
        stored, who = response.code < _REFUSED, process.name
        if not self._lives(process):
            who = "former"
        waits = self._waits.get(who, "")
        if request.method == "GET":
            if waits:  # the answer was lost, and the client asks once more
                self._note("Doubt", who)
            self._waits[who] = "look"
            self._note("Look", who)
        elif b'"holderIdentity":""' in request.body:
            if stored:
                self._note("Release", who)
        elif waits == "claim" and self._claims[who] is request:
            self._waits[who] = "stored"
            self._note("TakeClaim", who)
        elif stored:
            self._note("TakeLateClaim", who)
        return response

    def _on_remove(self, act: Act, storage: str, *_: Any) -> Any:
        gone = act()
        if storage == LEASES:
            self._note("Delete")
        return gone

    def _now(self) -> int:
        return round(self._world.scheduler.now * 1e6)

    def _note(self, action: str, who: str = "", time: int = 0) -> None:
        if passed := min(self._now() - self._at, _LONGEST):
            self.note("", "Pass", who="", time=passed)
        self._at = self._now()
        self.note("", action, who=who, time=time)

    def seen(self, subject: str) -> dict[str, Any]:
        del subject
        now, over = self._world.scheduler.now, self._over
        known = {name: one for name, one in self._elections.items() if name not in over}
        unread = self._world.contenders - self._elections.keys()
        return {
            "holder": self._holder(),
            "leading": {name for name, one in known.items() if one.may_write(now)},
            "looking": unread | {name for name, one in known.items() if one.must_look},
            "over": over,
        }

    def _holder(self) -> str:
        """Who holds the Lease, as the model calls it."""
        for item in self._world.store.collection(LEASES).objects.values():
            holder = item.decode()["spec"].get("holderIdentity")
            mine = (name for name, one in self._elections.items() if one._identity == holder)  # noqa: SLF001 - observed
            return next(mine, "former") if holder else "released"
        return "absent"


class LabelsTrace(Trace):
    """Of agents and the labels of their Nodes, without `state`.

    That says what the agent knows, not what there is.
    """

    config = "LabelsTrace", "LabelsTrace"
    watched = (
        *((SimulatedMachine, "set_faults"), (Worker, "probe _silent"), (Agent, "sync _failed")),
        *(("network", "serve"), ("scheduler", "kill"), ("store", "put remove")),
    )

    def __init__(self, world: World, most: int) -> None:
        super().__init__(world, most)
        self._machines: dict[str, dict[str, Any]] = {}
        self._writing: dict[str, str] = {}
        """What an agent's request that is being served would do, and to which Node."""
        for machine in world.machines:
            self._machines[machine.node] = {
                "uid": 1,
                "hardware": self._hardware(machine),
                "answers": True,
            }
            self.note(machine.node, "Start")

    def _hardware(self, machine: Any) -> str:
        labels = labelled(machine.node, machine.profile, machine.faults)
        return self.named(
            machine.node, {key: str(value) for key, value in labels.items() if key != STATE}
        )

    def seen(self, subject: str) -> dict[str, Any]:
        item = self._world.store.get("nodes", ("", subject))
        labels = (
            {key: text for key, text in item.labels.items() if key.startswith(PREFIX)}
            if item
            else {}
        )
        labels.pop(STATE, None)
        known = labels in self._known[subject]
        value = self.named(subject, labels) if known else "edited" if labels else "none"
        return {**self._machines[subject], "value": value}

    def _on_set_faults(self, act: Act, machine: SimulatedMachine, *_: Any, **__: Any) -> None:
        act()
        now, silent = self._machines[machine.node], _silent(machine)
        if not silent and now["hardware"] != (hardware := self._hardware(machine)):
            now["hardware"] = hardware
            self.note(machine.node, "Others")
        if now["answers"] is silent:
            now["answers"] = not silent
            self.note(machine.node, "Others")

    def _on_probe(self, act: Act, worker: Worker) -> Any:
        raw = act()
        self.note(worker._machine.node, "Probe")  # noqa: SLF001 - observed
        return raw

    def _on_silent(self, act: Act, worker: Worker) -> Any:
        if silent := act():  # that is what the probe will say, and when it found out
            self.note(worker._machine.node, "Probe")  # noqa: SLF001 - observed
        return silent

    def _on_sync(self, act: Act, agent: Agent) -> Any:
        self.note(agent._options.node_name, "Wake")  # noqa: SLF001 - observed
        return act()

    def _on_failed(self, act: Act, agent: Agent, *_: Any) -> None:
        act()
        self.note(agent._options.node_name, "Lose")  # noqa: SLF001 - observed

    def _on_kill(self, act: Act, process: Process) -> None:
        act()
        if process.name[6:] in self._machines:
            self.note(process.name[6:], "Crash")

    def _on_serve(self, act: Act, process: Process, request: Request) -> Any:
        node = process.name.removeprefix("agent-")
        if request.path != _NODES + node or "watch" in request.query:
            return act()
        waits = self._world.scheduler.running and self._lives(process)
        self._writing = {node: "Write" if waits else "TakeLate"}
        response = act()
        self._writing = {}
        if request.method == "GET" and response.code < _REFUSED:
            self.note(node, "Read")
        elif response.code >= _REFUSED:
            self.note(node, "Refused")
        return response

    def _on_put(self, act: Act, storage: str, document: Any) -> Any:
        node = document["metadata"]["name"]
        if storage != "nodes" or node not in self._machines:
            return act()
        before, item, action = self.seen(node), act(), self._writing.get(node, "")
        self._machines[node]["uid"] += self._world.store.get("nodes", item.key) is None
        if action or self.seen(node) != before:
            self.note(node, action or "Others")
        return item

    _on_remove = _on_put


class ReplacementTrace(Trace):
    """Of controllers and Kueue's Topologies, each from the first pass over it on."""

    config = "ReplacementTrace", "ReplacementTrace"
    watched = (
        *((ImmutableTopologyPublisher, "publish"), (Target, "failed")),
        *(("network", "serve"), ("store", "put remove")),
    )

    def __init__(self, world: World, most: int) -> None:
        super().__init__(world, most)
        self._wanted: dict[str, str] = {}
        self._passes: dict[str, tuple[Process, str]] = {}
        """Who is at work on each Topology, and what it did last.

        Nothing, or a step of the model.
        """
        self._failed = False
        """Whether a request of the present pass was refused."""
        self._writing: dict[str, str] = {}
        """What the request that is being served would do, and to which Topology."""

    def seen(self, subject: str) -> dict[str, Any]:
        item = self._world.store.get(KUEUES, ("", subject))
        there = {"owner": "nobody", "levels": ""}
        if item:
            levels = self.named(
                "", [level["nodeLabel"] for level in item.decode()["spec"]["levels"]]
            )
            there = {
                "owner": "ours" if item.labels.get(MANAGED_BY) == TOPOSCOPE else "theirs",
                "levels": levels,
            }
        return {"wanted": self._wanted[subject], **there}

    def _on_publish(
        self, act: Act, _publisher: Any, target: Target, _topology: Any, levels: Any
    ) -> Any:
        name, process = target.name, self._world.scheduler.current.process
        before, self._wanted[name] = (
            self._wanted.get(name),
            self.named("", [level.key for level in levels]),
        )
        if before != self._wanted[name]:
            self.note(name, "Others" if before else "Start")
        if self._passes.get(name, (process, ""))[1]:  # of a process that stands still
            self.note(name, "Crash")
        self._passes[name], self._failed, broken = (process, ""), False, True
        try:
            answer = act()
            broken = self._failed
        finally:
            if self._passes[name][0] is process and self._passes[name][1]:
                self.note(name, "Crash" if broken else "End")
                self._passes[name] = process, ""
        return answer

    def _on_failed(self, act: Act, *_: Any) -> Any:
        self._failed = True
        return act()

    def _on_serve(self, act: Act, process: Process, request: Request) -> Any:
        method, work = (
            request.method,
            {name for name, (worker, _) in self._passes.items() if worker is process},
        )
        if method == "POST":  # a dry run, under another name
            work = {
                name for name in work if self._passes[name][1] == "Read" and request.path == KUEUE
            }
        else:
            work &= {request.path.removeprefix(f"{KUEUE}/")}
        if not work or not (self._world.scheduler.running and self._lives(process)):
            return act()
        name = work.pop()
        action, last = (
            {"GET": "Read", "POST": "Try", "DELETE": "Delete"}.get(method, "Change"),
            self._passes[name][1],
        )
        if action == "Change" and b'"resourceVersion":"1"' in request.body:
            action = "Create"
        if last == "Read" and action in ("Try", "Create"):
            self.note(name, "Decide")
        self._writing = {name: action}
        response = act()
        stored = not self._writing.pop(name, "")
        # else it is sent once more, or a look at what it has done
        if stored or last in _BEFORE.get(action, ()):
            self._passes[name] = process, action
        if not stored and last in _BEFORE.get(action, ()):
            self.note(name, action)
        return response

    def _on_put(self, act: Act, storage: str, document: Any) -> Any:
        item, name = act(), document["metadata"]["name"]
        if storage == KUEUES and name in self._wanted:
            self.note(name, self._writing.pop(name, "Others"))
        return item

    _on_remove = _on_put


class LevelsTrace(Trace):
    """Of leaders' passes and the level whose label Nodes may lose.

    Times are in millionths of the grace period.
    """

    config = "LevelsTrace", "LevelsTrace"
    watched = ((reconcile, "assess"),)

    def __init__(self, world: World, most: int) -> None:
        super().__init__(world, most)
        self._now: dict[str, dict[str, Any]] = {}
        """What the last pass over each topology, by uid, saw of the cluster."""
        self._passed: dict[str, tuple[Memory, int]] = {}
        """By whose memory, and when."""

    def seen(self, subject: str) -> dict[str, Any]:
        return self._now[subject]

    def _on_assess(
        self,
        act: Act,
        topology: Topology,
        evidence: Evidence,
        memory: Memory,
    ) -> Any:
        assessed, process, uid = act(), self._world.scheduler.current.process, topology.uid
        if topology.levels is not None or not self._world.actors[process.name].program.leads():
            return assessed
        nodes, bound = table_of(evidence.nodes), evidence.bound
        carrying = sum(bool(node.label(LOST)) for node in nodes)
        few = "few" if 100 * carrying < topology.min_coverage * len(nodes) else "most"
        shown = few if carrying else "no" if nodes else "none"
        required = "unknown" if bound is None else "yes" if "block" in bound else "no"
        first = {"carried": shown, "shown": shown, "bound": required, "retain": topology.retain}
        decisions = {
            "read": _decision(reported(topology)),
            "decided": _decision(assessed.effective),
        }
        moment = round(evidence.now * 1e6 / topology.grace)
        if uid not in self._now:
            self._now[uid] = first
            self.note(uid, "Start", **decisions)
        else:
            last_memory, then = self._passed[uid]
            self.note(uid, "Wait", time=min(moment - then, _LONGEST))
            for name, action in _OF_CLUSTER.items():
                if self._now[uid][name] != first[name]:
                    self._now[uid] |= {name: first[name]}
                    self.note(uid, action)
            if memory is not last_memory:
                self.note(uid, "Restart")
        self._passed[uid] = memory, moment
        self.note(uid, "Pass", **decisions)
        return assessed


def _decision(levels: EffectiveLevels) -> dict[str, bool]:
    parts = {"level": levels.levels, "expired": levels.expired, "retained": levels.retained}
    return {name: any(level.key == LOST for level in part) for name, part in parts.items()}


_OF_CLUSTER: Final = {
    "carried": "Nodes",
    "shown": "Watch",
    "bound": "Workloads",
    "retain": "Policy",
}
_ALL: Final = (LeaseTrace, LabelsTrace, ReplacementTrace, LevelsTrace)
KINDS: Final = {kind.config[0].removesuffix("Trace"): kind for kind in _ALL}
"""By model."""
_BEFORE: Final = {
    "Read": {"", "Read"},
    "Try": {"Read"},
    "Delete": {"Try"},
    "Create": {"Read", "Delete"},
}
"""After which steps of a pass each is one, whatever the server answers."""


def _silent(machine: SimulatedMachine) -> bool:
    return machine.faults.startswith("calls:")


def _name(election: Election) -> str:
    return election._identity.partition("_")[0]  # noqa: SLF001 - observed


def _around(original: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def around(*what: Any, **more: Any) -> Any:
        return instead(lambda: original(*what, **more), *what)

    return around


def tla(value: Any) -> str:
    """A value of TLA+: a text, a number, a set of texts, or a record."""
    if isinstance(value, dict):
        return "[" + ", ".join(f"{name} |-> {tla(part)}" for name, part in value.items()) + "]"
    if isinstance(value, set):
        return "{" + ", ".join(map(tla, sorted(value))) + "}"
    return json.dumps(value) if isinstance(value, str) else str(value).upper()
