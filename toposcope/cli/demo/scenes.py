"""The demo, scene by scene; everything it shows was read back from the API server."""

import contextlib
import shutil
import signal
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from toposcope.agent.options import AgentOptions
from toposcope.agent.run import run as run_agent
from toposcope.api import label_keys
from toposcope.api.cluster_topology import API_VERSION, KIND, PATH
from toposcope.api.conditions import LEVELS_AVAILABLE, READY, previous
from toposcope.api.namespaces import HOME_NAMESPACE
from toposcope.cli.demo.processes import Processes
from toposcope.cli.hardware import simulated
from toposcope.cli.matrix import node_matrix_lines
from toposcope.cli.terminal import columns, screen
from toposcope.cli.tree import tree_lines
from toposcope.controller.options import ControllerOptions
from toposcope.controller.run import run as run_controller
from toposcope.errors import ToposcopeError
from toposcope.hardware.matrix_annotation import parse
from toposcope.integrations.grove import demo
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.config import load
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.requests import NODES
from toposcope.simulator import manifests
from toposcope.simulator.apiserver import EmbeddedApiServer
from toposcope.simulator.cluster import RACK_KEY, SimulatedNode, demo_cluster
from toposcope.snapshot.live import load_live

_NAME: Final = "cluster"
_GRACE_SECONDS: Final = 2
_PATIENCE_SECONDS: Final = 60.0
_MERGE: Final = "application/merge-patch+json"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PENDING: Final = {
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/demo/pods",
}
_EVENTS: Final = "/apis/events.k8s.io/v1/events"
_CONDITION_HEADER: Final = ("TYPE", "STATUS", "REASON", "MESSAGE")
_CLUSTER_TOPOLOGY: Final = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "metadata": {"name": _NAME},
    "spec": {
        "required": ["rack"],
        "gracePeriod": f"{_GRACE_SECONDS}s",
        "publish": demo.PUBLISH,  # `_operate` makes what is left out here
    },
}
_HOME: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME_NAMESPACE}}
"""The namespace of the Lease."""


class DemoError(ToposcopeError):
    """A scene failed; the message says which."""


class Demo:
    """The demo: `play` shows it, `keep` leaves its cluster running."""

    def __init__(self, console: Console, processes: Processes, kubeconfig: Path) -> None:
        self._console = console
        self._screen = screen(can_page=False)
        self._processes = processes
        self._kubeconfig = kubeconfig
        self._nodes = demo_cluster()

    def play(self) -> None:
        """All scenes in order. Raises DemoError."""
        try:
            self._start()
            with self._connected("toposcope-demo") as self._client:
                self._wait_until_ready()
                self._show_labels()
                self._show_matrix("h200-1")
                self._show_tree()
                self._show_topology(self._topology())
                self._break_and_heal()
        except KubeError as error:
            raise DemoError(f"the API server failed: {error}") from error

    def keep(self) -> None:
        """Leave everything running until Ctrl-C."""
        self._submit()
        self._show_page()
        self._heading("The cluster runs until Ctrl-C. In another terminal:")
        self.say_path()
        self.say(
            f"  export KUBECONFIG={self._kubeconfig}\n"
            f"  kubectl get nodes -L {label_keys.NVLINK_DOMAIN}\n"
            "  kubectl explain gtopo.spec\n"
            "  toposcope explain pod/notebook -n demo    "
            "# why it waits; so do pod/pretrain and pcs/llm\n"
            f"  kubectl label node h200-1 {RACK_KEY}-    # and watch LevelsCovered"
        )
        self._console.file.flush()  # whoever waits for this line may read it from a file
        signal.pause()

    def say_path(self) -> None:
        """Say how other shells find the command, where they do not."""
        scripts = sysconfig.get_path("scripts")
        program = Path(scripts) / "toposcope"
        is_on_path = shutil.which("toposcope") is not None
        if program.exists() and not is_on_path:
            self.say(f'  export PATH="{scripts}:$PATH"    # for the command toposcope')

    def _submit(self) -> None:
        """Submit a workload to each scheduler.

        Only for `keep`: the required levels of a PodCliqueSet stay published.
        """
        with self._connected("toposcope-demo") as client:
            kept = manifests.crd(demo.KEPT)
            _post(client, _CRDS, kept)
            for document in manifests.pending():
                path = _PENDING[document["kind"]]
                _post(client, path, document)
            _post(client, demo.PENDING_PATH, demo.PENDING)

    def _connected(self, program: str) -> closing[ApiClient]:
        """A client of the simulated cluster; `program` is for its audit log."""
        cluster = load(str(self._kubeconfig))
        return closing(ApiClient(cluster, program))

    def _show_page(self) -> None:
        """Serve the page of the cluster, from a process of its own."""
        # Only --keep has to wait for the server's libraries.
        from toposcope.telemetry.logs import set_up  # noqa: PLC0415 - see above
        from toposcope.ui import program as programs  # noqa: PLC0415 - see above

        program = programs.of_cluster(str(self._kubeconfig))
        self._heading("The cluster in a browser")
        if program.bundle.page() is None:
            self.say(f"  {program.bundle.missing}")
            return

        with programs.listening("127.0.0.1", 0) as listener:

            def serve() -> int:
                set_up("text")
                program.serve(listener)
                return 0

            self._processes.fork("ui", serve)
            address = programs.address_of(listener)
            self.say(f"  {address}")

    def say(self, text: str, style: str = "") -> None:
        """Print text as it is, never wrapped: terminals wrap long lines themselves."""
        self._console.print(text, style=style, soft_wrap=True)

    def _heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(text, style="bold"), align="left")

    # The cluster

    def _start(self) -> None:
        """Start everything.

        All processes are forked before this one opens a connection or starts a thread.
        """
        self.say(
            f"Simulating {len(self._nodes)} nodes, each with a real agent, "
            "beside an embedded API server and the real controller."
        )
        self._processes.fork("apiserver", self._serve)
        self._wait("API server", self._kubeconfig.exists)
        for node in self._nodes:
            agent = partial(self._agent, node)
            self._processes.fork(f"agent-{node.name}", agent)
        self._processes.fork("controller", self._controller)

    def _wait_until_ready(self) -> None:
        count = len(self._nodes)
        steps = {
            f"{count} agents probe their GPUs and label their nodes": self._has_all_labels,
            "controller infers the levels and publishes them": self._is_ready,
        }
        spinner = SpinnerColumn()
        text_column = TextColumn("{task.description}")
        elapsed = TimeElapsedColumn()
        with Progress(spinner, text_column, elapsed, console=self._console) as progress:
            for text, is_done in steps.items():
                task = progress.add_task(text, total=1)
                self._wait(text, is_done)
                progress.update(task, completed=1)

    def _serve(self) -> int:
        server = EmbeddedApiServer()
        server.start()
        server.load(node.node_object() for node in self._nodes)
        unfinished = self._kubeconfig.with_suffix(".new")
        server.write_kubeconfig(unfinished)
        cluster = load(str(unfinished))
        with closing(ApiClient(cluster._replace(namespace="default"))) as client:
            _post(client, _CRDS, manifests.cluster_topology_crd())
            for kind in demo.SERVED:
                _post(client, _CRDS, manifests.crd(kind))
            _post(client, "/api/v1/namespaces", _HOME)
            _post(client, PATH, _CLUSTER_TOPOLOGY)

        # Under this name the others find it, once everything is set up.
        unfinished.rename(self._kubeconfig)
        self._operate()
        return 0

    def _operate(self) -> None:
        """Keep the scheduler's Topology as the binding says, as the operator does."""
        published: list[dict[str, str]] = []
        topologies = demo.topologies_path()
        get_binding = Request("GET", demo.binding_path(_NAME), {})
        delete_topology = Request("DELETE", f"{topologies}/{_NAME}", {})
        with self._connected(demo.OPERATOR) as client:
            while True:
                time.sleep(_GRACE_SECONDS / 4)
                with contextlib.suppress(KubeError):
                    binding = client.call(get_binding)
                    levels = demo.node_labels(binding)
                    if levels == published:
                        continue
                    if published:  # its levels cannot be changed
                        client.call(delete_topology)
                    topology = demo.topology_of(binding)
                    _post(client, topologies, topology)
                    published = levels

    def _agent(self, node: SimulatedNode) -> int:
        options = AgentOptions(
            node.name,
            str(self._kubeconfig),
            interval=2.0,
            spread=0.0,
            unique_values=True,
            slinky=True,
        )
        with simulated(node.machine, None) as probe:
            return run_agent(options, probe)

    def _controller(self) -> int:
        options = ControllerOptions(
            kubeconfig=str(self._kubeconfig),
            once=False,
            debounce=0.2,
            metrics_port=None,
            log_format="text",
            leader_elect=True,
        )
        return run_controller(options)

    def _wait(self, what: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not is_done():
            if time.monotonic() > deadline:
                raise DemoError(f"{what}: not done within {_PATIENCE_SECONDS:.0f} s")
            time.sleep(0.1)

    # What the API server holds

    def _get(self, path: str) -> Any:
        return self._client.call(Request("GET", path, {}))

    def _topology(self) -> dict[str, Any]:
        topology: dict[str, Any] = self._get(f"{PATH}/{_NAME}")
        return topology

    def _condition(self, kind: str) -> Mapping[str, Any]:
        topology = self._topology()
        status = topology.get("status") or {}
        return previous(status, kind) or {}

    def _has_all_labels(self) -> bool:
        nodes = self._get(NODES)
        for node in nodes["items"]:
            labels = node["metadata"]["labels"]
            if label_keys.STATE not in labels:
                return False
        return True

    def _is_ready(self) -> bool:
        topology = self._topology()
        status = topology.get("status") or {}
        ready = previous(status, READY)
        if ready is None or ready.get("status") != "True":
            return False
        return bool(status.get("nodes") == len(self._nodes))

    def _events(self) -> list[dict[str, Any]]:
        """Events about the level that goes and comes back.

        Other conditions turn at the same time.
        """
        events = []
        for event in self._get(_EVENTS)["items"]:
            kind = event["regarding"]["kind"]
            if kind == KIND and "TopologyLevels" in event["reason"]:
                events.append(event)
        return events

    # The scenes

    def _show_labels(self) -> None:
        names = ("gb200-01", "h200-1", "l40s-1")
        self._heading("Labels that the agents wrote (one node of each kind)")
        keys: set[str] = set()
        labels_of_nodes = []
        for name in names:
            labels = self._metadata(name)["labels"]
            labels_of_nodes.append(labels)
            for key in labels:
                if key.startswith(label_keys.PREFIX):
                    keys.add(key)

        rows = []
        for key in sorted(keys):
            row = [key]
            for labels in labels_of_nodes:
                row.append(labels.get(key, ""))
            rows.append(row)
        self._screen.show(columns(self._screen, ["", *names], rows))

    def _metadata(self, node: str) -> Any:
        return self._get(f"{NODES}/{node}")["metadata"]

    def _show_matrix(self, name: str) -> None:
        self._heading(f"Link matrix of {name}, from its annotation {label_keys.MATRIX}")
        annotations = self._metadata(name)["annotations"]
        matrix = parse(annotations[label_keys.MATRIX])
        lines = node_matrix_lines(self._screen, matrix)
        self._screen.show(lines)

    def _show_tree(self) -> None:
        self._heading("The hierarchy, as `toposcope tree` shows it")
        now = datetime.now(UTC)
        snapshot = load_live(self._client, "", now)
        lines = tree_lines(self._screen, snapshot)
        self._screen.show(lines)

    def _show_topology(self, topology: Mapping[str, Any]) -> None:
        self._heading("ClusterTopology, written by the controller")
        status = dict(topology["status"])
        conditions = status.pop("conditions")
        shown = {
            "apiVersion": topology["apiVersion"],
            "kind": topology["kind"],
            "metadata": {"name": topology["metadata"]["name"]},
            "spec": topology["spec"],
            "status": status,
        }
        text = yaml.safe_dump(shown, sort_keys=False, width=110)
        self.say(text.rstrip())
        self._heading("Its conditions")
        rows = [_cells(condition) for condition in conditions]
        lines = columns(self._screen, _CONDITION_HEADER, rows)
        self._screen.show(lines)

    def _break_and_heal(self) -> None:
        self._heading("Now something breaks: the rack label is removed from every node")
        racks = dict(self._relabel({}))
        self._follow("False", f"missing for longer than gracePeriod ({_GRACE_SECONDS} s)")
        self._heading("And it comes back")
        dict(self._relabel(racks))
        self._follow("True", "the label is on every node again")

    def _relabel(self, racks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Set every node's rack label as given, or remove it; yields what it was."""
        nodes = self._get(NODES)
        for node in nodes["items"]:
            metadata = node["metadata"]
            name = metadata["name"]
            labels = {RACK_KEY: racks.get(name)}
            patch = msgspec.json.encode({"metadata": {"labels": labels}})
            request = Request("PATCH", f"{NODES}/{name}", {}, patch, _MERGE)
            try:
                self._client.call(request)
            except ApiError as error:
                raise DemoError(f"cannot relabel {name}: {error}") from error
            yield name, metadata["labels"].get(RACK_KEY, "")

    def _follow(self, status: str, why: str) -> None:
        events_before = len(self._events())
        began = time.monotonic()

        def has_turned() -> bool:
            condition = self._condition(LEVELS_AVAILABLE)
            return condition.get("status") == status and len(self._events()) > events_before

        self._wait(f"{LEVELS_AVAILABLE} {status}", has_turned)
        elapsed = time.monotonic() - began
        self.say(f"after {elapsed:.1f} s ({why}):", style="dim")

        condition = self._condition(LEVELS_AVAILABLE)
        colour = "green" if status == "True" else "bold red"
        reason = f" ({condition['reason']}) {condition['message']}"
        self._fact("condition  ", f"{LEVELS_AVAILABLE}=", (status, colour), reason)

        binding = self._get(demo.binding_path(_NAME))
        domains = []
        for level in binding["spec"]["levels"]:
            domains.append(level["domain"])
        self._fact(demo.TITLE, " > ".join(domains))

        event = max(self._events(), key=lambda event: event["eventTime"])
        about = f"{event['type']} {event['reason']} on {KIND}/{_NAME}: {event['note']}"
        self._fact("event      ", about)

    def _fact(self, title: str, *parts: str | tuple[str, str]) -> None:
        """Print a fact that was read back from the API server."""
        line = Text.assemble((title, "dim"), *parts)
        self._console.print(line, soft_wrap=not self._console.is_terminal)


def _post(client: ApiClient, path: str, document: Mapping[str, Any]) -> None:
    body = msgspec.json.encode(document)
    client.call(Request("POST", path, {}, body))


def _cells(condition: Mapping[str, Any]) -> list[str]:
    return [
        condition["type"],
        condition["status"],
        condition["reason"],
        condition["message"],
    ]
