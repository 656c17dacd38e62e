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
        {"domain": domain, "key": key}
        for domain, key in {"block": BLOCK, "zone": ZONE, "rack": RACK, "host": HOSTNAME}.items()
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
    crd = stand_in(group, version, "Topology", "topologies", namespaced=False)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    levels = {"type": "array", "maxItems": most, "items": anything}
    spec = {**anything, "properties": {"levels": levels}}
    schema = {**anything, "properties": {"spec": spec}}
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
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
        ours = yaml.safe_load(CRD.read_text(encoding="utf-8"))
        # Kueue's has room for a Topology of somebody else, KAI's refuses three levels.
        kueue, kai = topologies_crd("kueue.x-k8s.io", "v1beta2", 16), topologies_crd("kai.scheduler", "v1alpha1", 1)
        for crd in (ours, kueue, kai):
            self._api.install_crd(crd)
        levels = {"levels": [{"nodeLabel": HOSTNAME}]}
        metadata = {"name": "cluster"}
        foreign = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": metadata, "spec": levels}
        self._api.create(KUEUE, foreign)
        kind = {"apiVersion": "gpu.topology/v1alpha1", "kind": "ClusterTopology", "metadata": metadata}
        self._api.create(PATH, {**kind, "spec": SPEC})
        # Two halves of one fabric, the second without a zone, and degraded: else these would be partitions.
        for number, state in ((1, "ok"), (2, "degraded")):
            domain = {GPUS: "4", NVLINK_DOMAIN: fabric(1, clique=number), STATE: state}
            self._add_node(f"tray-{number}", domain | ({ZONE: "z", BLOCK: "b"} if number == 1 else {}))
        self._add_node("worn", {ZONE: "z", BLOCK: "b2"})  # blocks within a zone, listed above it
        self._add_node("mute", {ZONE: "z"})
        self._add_node("bare", {ZONE: "z", GPU_PRESENT: "true"})
        for name in CABLED[1:]:
            self._add_node(name, {ZONE: "z", BLOCK: "b", GPUS: "8"})
        for name in CABLED:
            self._cable(name, "leaf-2" if name == CABLED[0] else "leaf-1")
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(30)

    def pods(self) -> list[Pod]:
        """What there is to scrape, whether it runs or not."""
        agents = [Pod(self._ports[name], f"agent-{name}", "agent", name) for name in AGENTS]
        return agents + [Pod(self._ports[name], name, "controller", "tray-1") for name in CONTROLLERS]

    def start_what_is_broken(self) -> None:
        """Agents with something amiss, a controller without an API server, an unconfined one that hears nothing."""
        self._start_agent("worn", {"links_down": {0: [5]}})
        self._start_agent("mute", {"init_error": 9})
        self._start_agent("unknown", {})
        nowhere = self._folder / "nowhere"
        kubeconfig = yaml.safe_load(self._api.kubeconfig.read_text())
        for cluster in kubeconfig["clusters"]:
            cluster["cluster"]["server"] = f"{self._api.url.partition(':')[0]}://127.0.0.1:{free_port()}"
        nowhere.write_text(yaml.safe_dump(kubeconfig))
        self._start_controller("cut-off", nowhere)
        registry = new_registry()
        watches = WatchMetrics(registry, self._late)
        watches.listed("/api/v1/nodes", "first")
        LeaderMetrics(registry, lambda: False, lambda: self._confined)
        self._watches = watches
        deaf = TelemetryServer(self._ports["deaf"], lambda: page(registry), str, str)
        self._stack.callback(deaf.close)

    def start_controller(self) -> None:
        """One that works, with a bad configuration. The one without an API server has no Lease either: two lead."""
        configuration = self._folder / "config.yaml"
        bad = {"catalogue": {"keys": [{"key": RACK, "domain": "rock"}]}}
        header = {"apiVersion": "config.gpu.topology/v1alpha1", "kind": "ControllerConfig"}
        configuration.write_text(yaml.safe_dump(header | bad))
        self._start_controller("leader", self._api.kubeconfig, "--config", str(configuration))

    def mend(self) -> None:
        """Everything, as the runbooks say."""
        self._end("cut-off")
        self._end("leader")
        self._start_controller("leader", self._api.kubeconfig)
        self._late.seconds = 0.0
        self._confined = True
        self._watches.heard("/api/v1/nodes")
        for name in ("worn", "mute"):
            self._write_faults(name, {})
        self._add_node("unknown", {ZONE: "z"})
        self._start_agent("bare", {})
        self._cable(CABLED[0], "leaf-1")
        self._label("tray-2", {ZONE: "z", NVLINK_DOMAIN: fabric(1, clique=1), STATE: "ok"})
        for name in ("tray-2", *CABLED, *AGENTS):
            self._label(name, {RACK: "r", BLOCK: "b"})
        self._api.request("DELETE", f"{KUEUE}/cluster")
        self._patch(f"{PATH}/cluster", {"spec": {"publish": {"kai": "Never"}}})

    def last_words(self) -> str:
        """The last lines that each program said."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{log.stem}: {log.read_text(errors='replace')[-600:]}" for log in logs)

    def _add_node(self, name: str, labels: Mapping[str, str]) -> None:
        self._api.create(NODES, node(name, labels={HOSTNAME: name, **labels}))
        self._patch(f"{NODES}/{name}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})

    def _label(self, name: str, labels: Mapping[str, str]) -> None:
        self._patch(f"{NODES}/{name}", {"metadata": {"labels": dict(labels)}})

    def _cable(self, name: str, second: str) -> None:
        rails = [{"nic": leaf, "switch": leaf, "id": leaf, "port": "1"} for leaf in ("leaf-0", second)]
        self._patch(f"{NODES}/{name}", {"metadata": {"annotations": {RAILS: json.dumps(rails)}}})

    def _patch(self, path: str, change: Mapping[str, Any]) -> None:
        code, answer = self._api.request("PATCH", path, change, content_type=MERGE)
        assert code == 200, answer

    def _write_faults(self, name: str, faults: Mapping[str, Any]) -> Path:
        file = self._folder / f"{name}.faults.yaml"
        file.write_text(yaml.safe_dump(dict(faults)))
        return file

    def _start_agent(self, name: str, faults: Mapping[str, Any]) -> None:
        file = self._write_faults(name, faults)
        flags = f"--node-name {name} --interval 1 --spread 0 --profile dgx-h200 --faults {file}".split()
        self._start(name, "agent", self._api.kubeconfig, *flags)

    def _start_controller(self, name: str, kubeconfig: Path, *flags: str) -> None:
        self._start(name, "controller", kubeconfig, "--debounce", "0", *flags)

    def _start(self, name: str, program: str, kubeconfig: Path, *flags: str) -> None:
        command = [sys.executable, "-W", "error", "-m", "toposcope.cli.main", program, "--kubeconfig", str(kubeconfig)]
        command += ["--metrics-port", str(self._ports[name]), *flags]
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)

    def _end(self, name: str) -> None:
        process = self._running.pop(name)
        process.terminate()
        process.wait(30)
