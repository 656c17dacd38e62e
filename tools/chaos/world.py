"""One cluster to be broken: servers, programs with a proxy and a token each, and observers."""

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from tools.apiserver.client import CRDS, MERGE, pod_token
from tools.apiserver.server import Binaries
from tools.chaos import cluster
from tools.chaos.audit import AuditLog, PublishedWrites, Turns
from tools.chaos.desired import desired, differences, observed
from tools.chaos.machines import PREFIX, ROOT, Machine
from tools.chaos.observer import Observer, ours
from tools.chaos.processes import Actor, Program, Scale
from tools.chaos.proxy import ProxyThread
from tools.chaos.servers import Servers
from tools.chaos.stand_ins import StandIns
from tools.chaos.violations import Findings, Leaks
from toposcope.api.label_keys import HOSTNAME
from toposcope.errors import ToposcopeError

NAMESPACE: Final = "toposcope-system"
_PATIENCE_SECONDS: Final = 90.0
_MATRIX: Final = f"{PREFIX}matrix"
_UNANSWERED: Final = (OSError, AssertionError, KeyError, ValueError)


class NotSettledError(ToposcopeError):
    """The cluster did not become what it should; the message says what is missing."""


class World:
    """A context manager; inside, the cluster runs and everything in it is as it should be."""

    def __init__(self, binaries: Binaries, scale: Scale) -> None:
        self.scale = scale
        self.findings = Findings()
        self.leaks = Leaks()
        self.keep_logs = False
        """Whether the folder with the logs outlives this."""
        self.memory: dict[str, Any] = {}
        """What faults remember from `inject` to `heal`."""
        self._stack = contextlib.ExitStack()
        self.folder = Path(tempfile.mkdtemp(prefix="toposcope-chaos-"))
        self.servers = Servers(self.folder, binaries)
        self.api = self.servers.api
        self.machines = cluster.machines(scale.agents, self.folder)
        self.observer = Observer(self.api, self.machines, self.findings)
        self.audit = AuditLog(self.servers.audit_log)
        self.turns = Turns(self.findings, scale.lease / scale.controller_speed)
        self.published_writes = PublishedWrites(self.findings)
        self.actors: dict[str, Actor] = {}
        self.desired: dict[str, Any] = {}
        self._desired_later: dict[str, Any] = {}
        """The same where Grove was away so long that KAI's Topologies were made without it."""
        self.snapshot: Path | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.callback(self._clean)
            stack.callback(self.servers.stop, keep_logs=True)
            self.servers.start()
            self._install()

            self.proxies = stack.enter_context(ProxyThread())
            for machine in self.machines:
                self._add("agent", machine.node, machine)
            for number in range(2):
                self._add("controller", str(number), None)

            nodes = [machine.node for machine in self.machines]
            stand_ins = StandIns(self.api, nodes, cluster.passing_node())
            self.stand_ins = stack.enter_context(stand_ins)
            for actor in self.actors.values():
                stack.callback(actor.program.kill)
                actor.program.start()
            self._settle_first()

            stack.enter_context(self.observer)
            # What it has not seen yet, it cannot miss.
            self._until(self._is_all_seen, "the observer sees every machine")
            self._stack = stack.pop_all()
        return self

    def _is_all_seen(self) -> bool:
        """Whether the observer has seen the labels of every machine."""
        seen = self.findings.checks["labels"]
        return seen >= len(self.machines)

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _clean(self) -> None:
        if not self.keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    # Who is there

    @property
    def agents(self) -> list[Actor]:
        """The agents, in order."""
        return [actor for actor in self.actors.values() if actor.machine]

    @property
    def controllers(self) -> list[Actor]:
        """The controllers, in order."""
        return [actor for actor in self.actors.values() if not actor.machine]

    def leader(self) -> Actor:
        """The controller that says that it leads; the first one when none does just now."""
        return next(
            (actor for actor in self.controllers if actor.program.leads()), self.controllers[0]
        )

    def rotate(self, actor: Actor) -> None:
        """Replace the pod of a program: its old token ends at once, and the file gets a new one."""
        name = actor.pod["metadata"]["name"]
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
        }
        self.api.request("DELETE", f"{cluster.PODS}/{name}", options)
        pod = self._pod_of(actor)
        actor.pod = self.api.create(cluster.PODS, pod)

    def write_token(self, actor: Actor) -> None:
        """Give a program a token as a kubelet does: of the pod that the server has now.

        After etcd was set back that is an older one than the program was started for, or none.
        """
        pod = self._pod_of(actor)
        actor.pod = cluster.present_pod(self.api, pod)
        token = pod_token(self.api, actor.pod)
        fresh = actor.token.with_suffix(".new")
        fresh.write_text(token, encoding="utf-8")
        fresh.rename(actor.token)

    # How it is made

    def _install(self) -> None:
        """Apply the project's own manifests, and what others bring along."""
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            raise NotSettledError("kubectl is not on PATH; it applies the manifests")
        for part in ("crds", "base"):
            if part == "base":
                self._until(
                    lambda: self._is_served(cluster.TOPOLOGIES), "ClusterTopology is served"
                )
            command = [
                kubectl,
                "--kubeconfig",
                str(self.api.kubeconfig),
                "apply",
                "--server-side",
                "-k",
            ]
            done = subprocess.run(
                [*command, str(ROOT / "manifests" / part)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise NotSettledError(f"kubectl apply -k manifests/{part}: {done.stderr}")
        for crd in cluster.crds().values():
            self.api.install_crd(crd)
        self.populate()

    def populate(self) -> None:
        """Create the Nodes, what others brought along, and the ClusterTopologies."""
        for node in (*cluster.other_nodes(), *map(cluster.machine_node, self.machines)):
            self.add_node(node)
        self.plant()
        self.add_topologies()

    def _is_served(self, path: str) -> bool:
        return self.api.request("GET", path)[0] == 200

    def add_node(self, node: dict[str, Any]) -> None:
        """Create a Node, and have the observer know what others wrote on it."""
        name = node["metadata"]["name"]
        path = f"{cluster.NODES}/{name}"
        spec = node.get("spec") or {}
        taints = spec.get("taints")
        created = self.api.create(cluster.NODES, node)
        if taints and created["spec"].get("taints") != taints:
            created = self.api.get(path)

        # Not ready before its kubelet says so: set what it would say.
        status = {}
        for part in ("conditions", "allocatable", "capacity"):
            status[part] = node["status"][part]
        change = {"status": status}
        self.api.request("PATCH", f"{path}/status", change, content_type=MERGE)
        self.observer.nodes.plant(created)

    def plant(self, patience: float = _PATIENCE_SECONDS) -> None:
        """Create those objects of others that are not there.

        Raises NotSettledError when their kinds are not served within `patience` seconds.
        """
        for path, document in cluster.foreign_objects():
            self._until(
                partial(self._is_served, path),
                f"{path} is served",
                patience=patience,
            )
            code, answer = self.api.request("POST", path, document)
            group = path.split("/")[2]
            while code == 409 and group in self.published_writes.free:
                object_path = f"{path}/{document['metadata']['name']}"
                if self._is_planted(object_path, document):
                    break
                # The name was free, and Toposcope took it: its owner comes back and insists.
                self.api.request("DELETE", object_path)
                code, answer = self.api.request("POST", path, document)
            if code == 201:
                self.observer.objects[path].plant(answer)

    def _is_planted(self, path: str, document: dict[str, Any]) -> bool:
        """Whether the server has this very object, by its labels."""
        code, stored = self.api.request("GET", path)
        if code != 200:
            return False
        labels = stored["metadata"].get("labels")
        return bool(labels == document["metadata"]["labels"])

    def add_topologies(self) -> None:
        """Create the ClusterTopologies, or give those that are there their specs."""
        for document in cluster.topologies():
            name = document["metadata"]["name"]
            path = f"{cluster.TOPOLOGIES}/{name}"
            body = {**document, "metadata": {"name": name}}
            code, answer = self.api.apply(path, body, "administrator", force=True)
            if code >= 300:
                raise NotSettledError(f"{path}: {answer}")

    def _add(self, module: str, name: str, machine: Machine | None) -> None:
        """A program with a proxy, a pod and a token of its own."""
        full = f"{module}-{name}"
        upstream = ("127.0.0.1", self.servers.port)
        proxy = self.proxies.add(upstream, self.servers.certificates)
        token = self.folder / f"{full}.token"
        kubeconfig = self.folder / f"{full}.kubeconfig"
        wall = self.folder / f"{full}.wall"
        wall.write_text("0", encoding="ascii")
        self.servers.write_kubeconfig(kubeconfig, {"tokenFile": str(token)}, proxy.port)

        arguments = ["--kubeconfig", str(kubeconfig)]
        if machine:
            arguments += ["--node-name", machine.node]
            arguments += ["--profile", machine.profile]
            arguments += ["--faults", str(machine.faults_file)]
            speed = self.scale.agent_speed
        else:
            arguments += ["--leader-elect"]
            arguments += ["--lease-namespace", NAMESPACE]
            arguments += ["--lease-duration", str(self.scale.lease)]
            speed = self.scale.controller_speed

        temporary = self.folder / f"{full}.tmp"
        temporary.mkdir()
        environment = {
            "CHAOS_SPEED": str(speed),
            "CHAOS_WALL": str(wall),
            "TMPDIR": str(temporary),
        }
        program = Program(
            full,
            module,
            arguments,
            self.folder,
            environment,
        )
        actor = Actor(program, proxy, token, wall, machine=machine)
        self.actors[full] = actor
        self.write_token(actor)

    def renew_tokens(self) -> None:
        """Give every program a token of the pod and the Node that the server has now."""
        for actor in self.actors.values():
            self.write_token(actor)

    def _pod_of(self, actor: Actor) -> dict[str, Any]:
        if actor.machine:
            account = "toposcope-agent"
            node = actor.machine.node
        else:
            account = "toposcope-controller"
            node = self.machines[0].node
        return cluster.pod(actor.name, account, node)

    # What it should be

    def _settle_first(self) -> None:
        """Wait for the labels, compute what is desired, wait for that."""
        self._until(
            lambda: not self._node_differences(),
            "agents label their nodes",
            self._node_differences,
        )

        self.desired = desired(self.api, self.folder)
        self._desired_later = desired(self.api, self.folder, has_late_grove=True)
        self._judge_by(self.desired)
        self._until(
            lambda: not self.unsettled(),
            "the controller publishes",
            self.unsettled,
        )

    def _judge_by(self, wanted: dict[str, Any]) -> None:
        """Set the levels by which the observer and the audit judge."""
        for path, document in wanted.items():
            collection, _, name = path.rpartition("/")
            if collection != cluster.TOPOLOGIES:
                continue
            keys = [level["key"] for level in document["levels"]]
            self.observer.topologies.levels[name] = keys

        for collection in (cluster.GROVE, cluster.KAI, cluster.KUEUE):
            group = collection.split("/")[2]
            published = wanted[f"{collection}/cluster"]
            self.published_writes.levels[group, "cluster"] = published["levels"]

    def unsettled(self) -> list[str]:
        """What is not as it should be in the end, in words; empty when everything is."""
        try:
            there = observed(self.api)
            missing = self._node_differences()
            missing += self._least_difference(there)
            missing += self._troubles()
            leaders = [actor.name for actor in self.controllers if actor.program.leads()]
        except _UNANSWERED as error:
            return [_unanswered(error)]

        if len(leaders) != 1:
            missing.append(f"{len(leaders)} controllers say that they lead")
        return missing

    def _least_difference(self, objects: dict[str, Any]) -> list[str]:
        """How what is there differs from that goal which it comes closest to."""
        of_each = [differences(goal, objects) for goal in self._wanted()]
        return min(of_each, key=len)

    def _troubles(self) -> list[str]:
        """What the programs say of themselves."""
        troubles = []
        for actor in self.actors.values():
            trouble = actor.program.trouble()
            if trouble:
                troubles.append(trouble)
        return troubles

    def _wanted(self) -> Iterator[dict[str, Any]]:
        """The states that may be reached in the end: with KAI's Topologies by Grove or without."""
        yield self.desired
        if self.published_writes.has_late_grove:
            yield self._desired_later

    def change_something(self) -> None:
        """Give the controller something to notice.

        A Node comes, and somebody edits Grove's resource.
        """
        self.stand_ins.is_here = True
        self.published_writes.is_deletion_expected = True
        level = {"domain": "host", "key": HOSTNAME}
        by_hand = {"spec": {"levels": [level]}}
        with contextlib.suppress(*_UNANSWERED):
            self.api.request(
                "PATCH",
                f"{cluster.GROVE}/cluster",
                by_hand,
                content_type=MERGE,
            )

    def unnoticed(self) -> list[str]:
        """What of it the controller has not answered yet."""
        topology_path = f"{cluster.TOPOLOGIES}/cluster"
        grove_path = f"{cluster.GROVE}/cluster"
        try:
            topology = self.api.get(topology_path)
            levels = self.api.get(grove_path)["spec"]["levels"]
        except _UNANSWERED as error:
            return [_unanswered(error)]

        missing = []
        status = topology.get("status") or {}
        nodes = status.get("nodes")
        wanted = self.desired[topology_path]["nodes"] + 1
        if nodes != wanted:
            missing.append(f"a new Node was not noticed: {nodes} nodes, should be {wanted}")

        if levels != self.desired[grove_path]["levels"]:
            missing.append("an edit of Grove's resource was not put back")
        return missing

    def _node_differences(self) -> list[str]:
        missing = []
        for machine in self.machines:
            name = f"node {machine.node}"
            path = f"{cluster.NODES}/{machine.node}"
            code, node = self.api.request("GET", path)
            if code != 200:
                return [f"{name}: {code}"]

            metadata = node["metadata"]
            labels = ours(metadata.get("labels") or {})
            annotations = metadata.get("annotations") or {}
            missing += differences(machine.healthy, labels, f"{name}:")
            if _MATRIX not in annotations:
                missing.append(f"{name}: no annotation {_MATRIX}")
        return missing

    def _until(
        self,
        done: Callable[[], bool],
        what: str,
        missing: Callable[[], list[str]] = list,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        deadline = self.monotonic() + patience
        while not done():
            if self.monotonic() > deadline:
                raise NotSettledError(
                    f"not within {patience:.0f} s: {what}; missing: {missing()[:5]}"
                )
            self.sleep(self.scale.look)

    # What faults do to objects

    def add_crd(self, crd: dict[str, Any]) -> None:
        """Create a CRD if it is not there, and wait until it is served."""
        name = crd["metadata"]["name"]
        path = f"{CRDS}/{name}"
        code, answer = self.api.request("GET", path)
        if code == 200:
            metadata = answer["metadata"]
            if metadata.get("deletionTimestamp"):
                self.api.remove_crd(name)

        code, _ = self.api.request("GET", path)
        if code != 200:
            self.api.create(CRDS, crd)
        self.api.settled_crd(name)

    def save(self) -> None:
        """Keep a copy of etcd, for a fault that sets it back to this."""
        self.snapshot = self.servers.save()

    def begin_round(self) -> None:
        """Judge what happened before, and expect no deletions any more."""
        self.judge()
        for machine in self.machines:
            machine.forget()
        self.published_writes.is_deletion_expected = False
        self.published_writes.free.clear()
        self.published_writes.allowed.clear()
        self.memory.clear()

    def judge(self) -> None:
        """Judge the audit log and the programs' logs.

        Raises NotSettledError when the observer is blind.
        """
        broken = self.observer.broken
        if broken:
            raise NotSettledError(f"the observer is blind: {broken}") from broken
        done, lost = self.audit.read()
        self.turns.judge(done, lost)
        self.published_writes.judge(done)

        for actor in self.actors.values():
            self.findings.checked("programs")
            _, mark, text = actor.program.output().partition("Traceback")
            if not mark:
                continue
            end = text[-400:].strip()
            self.findings.add("programs", f"{actor.name} left a traceback: ...{end}")
            log = actor.program.log
            log.rename(log.with_suffix(".traceback"))

    def now(self) -> datetime:
        """The time in the audit log."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let the cluster go on by itself."""
        time.sleep(seconds)

    def mend_servers(self) -> None:
        """Have both servers run, whatever was done to them. Raises ServerError."""
        self.servers.launch()
        for name in ("etcd", "kube-apiserver"):
            self.servers.signal(name, signal.SIGCONT)
        self.servers.start()

    def restart_ended(self) -> None:
        """Restart programs that ended by themselves, as a kubelet would, and record that."""
        for actor in self.actors.values():
            ended = actor.program.died()
            if ended:
                self.findings.add("programs", ended)
                actor.program.start()

    def forget_foreign(self, collection: str) -> None:
        """What others made in a collection goes, until `plant` brings it back."""
        self.observer.objects[collection].forget_foreign()
        self.published_writes.free.add(collection.split("/")[2])


def _unanswered(error: Exception) -> str:
    """That the API server did not answer, in one line."""
    kind = type(error).__name__
    return f"the API server: {kind}: {error}"[:300]
