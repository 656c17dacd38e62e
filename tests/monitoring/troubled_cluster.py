"""A cluster in which everything is wrong that an alert is about, kept by the real programs, and then mended."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

import yaml
from tests.monitoring.prometheus_server import Pod
from tests.support.api import MERGE, NODES, ApiUnderTest, node
from tests.support.cluster import BLOCK, ZONE, fabric
from tests.support.paths import CRD, ROOT
from tests.support.upstream_crds import stand_in
from tools.apiserver.server import free_port
from toposcope.api.cluster_topology import PATH
from toposcope.api.label_keys import GPU_PRESENT, GPUS, HOSTNAME, NVLINK_DOMAIN, RAILS, STATE
from toposcope.controller.metrics import LeaderMetrics, WatchMetrics
from toposcope.kube.runtime import Runtime
from toposcope.telemetry.prometheus import new_registry, page
from toposcope.telemetry.server import TelemetryServer

RACK = "example.com/rack"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/topologies"
SPEC = {
    "levels": [
        {"domain": "block", "key": BLOCK},
        {"domain": "zone", "key": ZONE},
        {"domain": "rack", "key": RACK},
        {"domain": "host", "key": HOSTNAME},
    ],
    "required": ["rack"],
    "gracePeriod": "1s",
}
CABLED = ("tray-1", "peer-1", "peer-2", "peer-3")
"""Two rails each, of which the first node's second goes into another switch than its peers' at first."""
AGENTS = ("worn", "mute", "unknown", "bare")
CONTROLLERS = ("cut-off", "deaf", "leader")
# An hour ago: longer than any alert waits.
LONG_AGO = 3600.0


def topologies_crd(group: str, version: str, most: int) -> dict[str, Any]:
    """A scheduler's Topology, as far as a publisher needs it, that takes `most` levels."""
    crd = stand_in(
        group,
        version,
        "Topology",
        "topologies",
        is_namespaced=False,
    )
    anything = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    levels = {
        "type": "array",
        "maxItems": most,
        "items": anything,
    }
    spec = {**anything, "properties": {"levels": levels}}
    schema = {**anything, "properties": {"spec": spec}}
    (served,) = crd["spec"]["versions"]
    served["schema"] = {"openAPIV3Schema": schema}
    return crd


@dataclass
class Late(Runtime):
    """A machine whose clock is late."""

    seconds: float

    def now(self) -> datetime:
        return super().now() - timedelta(seconds=self.seconds)


class TroubledCluster:
    """Nodes, agents and controllers. Start what is wrong with `start_...`, and end all of it with `mend`."""

    def __init__(self, api: ApiUnderTest, folder: Path) -> None:
        self._api = api
        self._folder = folder
        self._ports = {name: free_port() for name in (*AGENTS, *CONTROLLERS)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._late = Late(LONG_AGO)
        self._confined = False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._create_topologies()
        self._create_nodes()
        return self

    def _create_topologies(self) -> None:
        ours = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)
        self._api.install_crd(ours)
        # Kueue's has room for a Topology of somebody else, KAI's refuses three levels.
        self._api.install_crd(topologies_crd("kueue.x-k8s.io", "v1beta2", 16))
        self._api.install_crd(topologies_crd("kai.scheduler", "v1alpha1", 1))
        foreign = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Topology",
            "metadata": {"name": "cluster"},
            "spec": {"levels": [{"nodeLabel": HOSTNAME}]},
        }
        self._api.create(KUEUE, foreign)
        topology = {
            "apiVersion": "gpu.topology/v1alpha1",
            "kind": "ClusterTopology",
            "metadata": {"name": "cluster"},
            "spec": SPEC,
        }
        self._api.create(PATH, topology)

    def _create_nodes(self) -> None:
        # Two halves of one fabric, the second without a zone, and degraded: else these would be partitions.
        first_half = {
            GPUS: "4",
            NVLINK_DOMAIN: fabric(1, clique=1),
            STATE: "ok",
            ZONE: "z",
            BLOCK: "b",
        }
        second_half = {
            GPUS: "4",
            NVLINK_DOMAIN: fabric(1, clique=2),
            STATE: "degraded",
        }
        self._add_node("tray-1", first_half)
        self._add_node("tray-2", second_half)
        self._add_node("worn", {ZONE: "z", BLOCK: "b2"})  # blocks within a zone, listed above it
        self._add_node("mute", {ZONE: "z"})
        self._add_node("bare", {ZONE: "z", GPU_PRESENT: "true"})
        for name in CABLED[1:]:
            self._add_node(name, {ZONE: "z", BLOCK: "b", GPUS: "8"})
        self._cable(CABLED[0], "leaf-2")
        for name in CABLED[1:]:
            self._cable(name, "leaf-1")

    def __exit__(self, *_error: object) -> None:
        self._stack.close()
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(30)

    def pods(self) -> list[Pod]:
        """What there is to scrape, whether it runs or not."""
        pods = []
        for name in AGENTS:
            agent = Pod(
                self._ports[name],
                name=f"agent-{name}",
                component="agent",
                node=name,
            )
            pods.append(agent)
        for name in CONTROLLERS:
            controller = Pod(
                self._ports[name],
                name=name,
                component="controller",
                node="tray-1",
            )
            pods.append(controller)
        return pods

    def start_what_is_broken(self) -> None:
        """Agents with something amiss, a controller without an API server, an unconfined one that hears nothing."""
        self._start_agent("worn", {"links_down": {0: [5]}})
        self._start_agent("mute", {"init_error": 9})
        self._start_agent("unknown", {})
        self._start_controller("cut-off", self._kubeconfig_of_nobody())
        self._start_deaf_controller()

    def _kubeconfig_of_nobody(self) -> Path:
        """One that names an address at which no API server listens."""
        kubeconfig = yaml.load(self._api.kubeconfig.read_text(), yaml.CSafeLoader)
        scheme, _, _ = self._api.url.partition(":")
        for entry in kubeconfig["clusters"]:
            entry["cluster"]["server"] = f"{scheme}://127.0.0.1:{free_port()}"
        file = self._folder / "nowhere"
        file.write_text(yaml.safe_dump(kubeconfig))
        return file

    def _start_deaf_controller(self) -> None:
        """The metrics of a controller whose watch is silent."""
        registry = new_registry()
        watches = WatchMetrics(registry, self._late)
        watches.listed("/api/v1/nodes", "first")
        LeaderMetrics(registry, lambda: False, lambda: self._confined)
        self._watches = watches
        deaf = TelemetryServer(
            self._ports["deaf"],
            lambda: page(registry),
            str,
            str,
        )
        self._stack.callback(deaf.close)

    def start_controller(self) -> None:
        """One that works, with a bad configuration. The one without an API server has no Lease either: two lead."""
        configuration = {
            "apiVersion": "config.gpu.topology/v1alpha1",
            "kind": "ControllerConfig",
            "catalogue": {"keys": [{"key": RACK, "domain": "rock"}]},
        }
        file = self._folder / "config.yaml"
        file.write_text(yaml.safe_dump(configuration))
        self._start_controller(
            "leader",
            self._api.kubeconfig,
            "--config",
            str(file),
        )

    def mend(self) -> None:
        """Everything, as the runbooks say."""
        self._end("cut-off")
        self._end("leader")
        self._start_controller("leader", self._api.kubeconfig)
        self._late.seconds = 0.0
        self._confined = True
        self._watches.heard("/api/v1/nodes")
        self._write_faults("worn", {})
        self._write_faults("mute", {})
        self._add_node("unknown", {ZONE: "z"})
        self._start_agent("bare", {})
        self._cable(CABLED[0], "leaf-1")
        whole_fabric = {
            ZONE: "z",
            NVLINK_DOMAIN: fabric(1, clique=1),
            STATE: "ok",
        }
        self._label("tray-2", whole_fabric)
        for name in ("tray-2", *CABLED, *AGENTS):
            self._label(name, {RACK: "r", BLOCK: "b"})
        self._api.request("DELETE", f"{KUEUE}/cluster")
        self._patch(f"{PATH}/cluster", {"spec": {"publish": {"kai": "Never"}}})

    def last_words(self) -> str:
        """The last lines that each program said."""
        words = []
        for log in sorted(self._folder.glob("*.log")):
            text = log.read_text(errors="replace")
            words.append(f"{log.stem}: {text[-600:]}")
        return "\n".join(words)

    def _add_node(self, name: str, labels: Mapping[str, str]) -> None:
        document = node(name, labels={HOSTNAME: name, **labels})
        self._api.create(NODES, document)
        ready = {"type": "Ready", "status": "True"}
        self._patch(
            f"{NODES}/{name}/status",
            {"status": {"conditions": [ready]}},
        )

    def _label(self, name: str, labels: Mapping[str, str]) -> None:
        self._patch(f"{NODES}/{name}", {"metadata": {"labels": dict(labels)}})

    def _cable(self, name: str, second: str) -> None:
        rails = []
        for leaf in ("leaf-0", second):
            rail = {
                "nic": leaf,
                "switch": leaf,
                "id": leaf,
                "port": "1",
            }
            rails.append(rail)
        annotations = {RAILS: json.dumps(rails)}
        self._patch(
            f"{NODES}/{name}",
            {"metadata": {"annotations": annotations}},
        )

    def _patch(self, path: str, change: Mapping[str, Any]) -> None:
        code, answer = self._api.request(
            "PATCH",
            path,
            change,
            content_type=MERGE,
        )
        assert code == 200, answer

    def _write_faults(self, name: str, faults: Mapping[str, Any]) -> Path:
        file = self._folder / f"{name}.faults.yaml"
        file.write_text(yaml.safe_dump(dict(faults)))
        return file

    def _start_agent(self, name: str, faults: Mapping[str, Any]) -> None:
        file = self._write_faults(name, faults)
        self._start(
            name,
            "agent",
            self._api.kubeconfig,
            f"--node-name={name}",
            "--interval=1",
            "--spread=0",
            "--profile=dgx-h200",
            f"--faults={file}",
        )

    def _start_controller(self, name: str, kubeconfig: Path, *flags: str) -> None:
        self._start(name, "controller", kubeconfig, "--debounce", "0", *flags)

    def _start(self, name: str, program: str, kubeconfig: Path, *flags: str) -> None:
        command = [
            sys.executable,
            "-W",
            "error",
            "-m",
            "toposcope.cli.main",
            program,
            "--kubeconfig",
            str(kubeconfig),
            "--metrics-port",
            str(self._ports[name]),
            *flags,
        ]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        process.wait(30)
