"""A cluster on one machine: a control plane, and nodes with real kubelets and containerd in namespaces of their own.

This process is in the network namespace of the control plane, which `python -m tests.e2e` made. The Service address of
the API server lies on its loopback interface, so nothing needs kube-proxy; each node is one hop away on a bridge.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template
from typing import Any, Final, Self

import psutil
import yaml
from tests.e2e import build
from tests.e2e.build import run
from tests.manifests.support import write_overlay
from tests.support.api import CRDS, NODES, ApiUnderTest, wait_until
from tests.support.paths import MANIFESTS
from tools.apiserver.build import kubernetes_version
from tools.apiserver.server import RealApiServer, find_binaries

NAMESPACE: Final = "toposcope-system"
CAP_NET_RAW: Final = f"{1 << 13:016x}"
TOPOLOGY: Final = "/apis/gpu.topology/v1alpha1/clustertopologies/cluster"
_OURS: Final = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/api/v1/namespaces",
)
SERVICE: Final = "10.0.0.1"
"""The first address of kube-apiserver's Service range."""
_GATEWAY: Final = "10.99.0.1"
_CGROUPS: Final = Path("/sys/fs/cgroup")
CGROUP: Final = "toposcope-e2e"
_SCRIPT: Final = Path(__file__).with_name("node.sh")
_FILES: Final = Path(__file__).with_name("node")
_PATCHES: Final = Path(__file__).with_name("patches.yaml")
_PATIENCE: Final = 60.0


def hierarchies() -> list[Path]:
    """The roots of cgroups: one of each controller in version 1, one in version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    names = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd")
    return [_CGROUPS / name for name in names if (_CGROUPS / name).is_dir()]


class Node:
    """One node: `number` makes its addresses."""

    def __init__(self, name: str, number: int, folder: Path) -> None:
        self.name = name
        self.address = f"10.99.0.{10 + number}"
        self._pods = f"10.244.{number}.0/24"
        self.folder = folder / name
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: "Cluster", nvml: Path) -> None:
        """Write what its programs read, and start them; `nvml` is a folder with NVML and the table of a machine."""
        self.folder.mkdir()
        cluster.server.write_kubeconfig(
            self.folder / "kubeconfig", {"token": cluster.server.tokens[f"system:node:{self.name}"]}
        )
        self._write_files(cluster, nvml)
        for hierarchy in hierarchies():
            self._make_cgroup(hierarchy)
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", "--uts"]
        kubelet = cluster.programs / "kubelet"
        with (self.folder / "node.log").open("wb") as log:
            command: list[str | Path] = ["unshare", *namespaces, _SCRIPT, self.folder, self.name, self.address, kubelet]
            command += cluster.images
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: bool(psutil.Process(self._pid).children()), f"{self.name} has a first process")
        self._connect(psutil.Process(self._pid).children()[0].pid)

    @property
    def _pid(self) -> int:
        assert self._process
        return self._process.pid

    def want_kubelet(self) -> None:
        """Have kubelet run."""
        (self.folder / "want-kubelet").touch()

    def stop_kubelet(self) -> None:
        """End kubelet; pods go on."""
        (self.folder / "want-kubelet").unlink()
        for process in self.processes("kubelet"):
            process.terminate()
            process.wait(_PATIENCE)

    def processes(self, *words: str) -> list[psutil.Process]:
        """The node's processes with all of these words in their command lines."""
        chosen = []
        for process in psutil.Process(self._pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                line = process.cmdline()
                names = {Path(word).name for word in line}
                if names.issuperset(words) and "unshare" not in names and _SCRIPT.name not in names:
                    chosen.append(process)
        return chosen

    def logs(self, container: str) -> str:
        """What the containers of this name have written on the node."""
        files = (self.folder / "pods").glob(f"*/{container}/*.log")
        return "".join(file.read_text(encoding="utf-8") for file in files)

    def peak_memory(self) -> dict[str, int]:
        """Bytes that each container's cgroup took at most, by the container's id."""
        (root,) = [hierarchy for hierarchy in hierarchies() if hierarchy.name in ("memory", _CGROUPS.name)]
        peaks = {}
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            for path in (root / self._cgroup).rglob(name):
                with contextlib.suppress(FileNotFoundError):
                    peaks[path.parent.name] = int(path.read_text())
        return peaks

    def stop(self) -> None:
        """End everything of it."""
        if self._process:
            self._process.kill()
            self._process.wait()

    @property
    def _cgroup(self) -> str:
        return f"{CGROUP}-{self.name}"

    def _make_cgroup(self, hierarchy: Path) -> None:
        folder = hierarchy / self._cgroup
        folder.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 lets nothing in before they are set
            if hierarchy.name == "cpuset":
                (folder / name).write_text((hierarchy / name).read_text())

    def _connect(self, pid: int) -> None:
        """Join the bridge: eth0 of the namespace of `pid`."""
        inside = ["nsenter", f"--net=/proc/{pid}/ns/net"]
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", self.name, "master", "br0", "up")
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")
        run(*inside, "ip", "route", "add", "default", "via", _GATEWAY)
        run(*inside, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        run("ip", "route", "add", self._pods, "via", self.address)

    def _write_files(self, cluster: "Cluster", nvml: Path) -> None:
        """What its programs read: the files of `node/`, with what is so on this node in the place of `$word`."""
        words: dict[str, object] = {
            "folder": self.folder,
            "cgroup": self._cgroup,
            "cgroup_v1": "" if kubernetes_version().startswith("v1.30.") else "failCgroupV1: false",
            "ca": cluster.server.ca_file,
            "pause": build.PAUSE,
            "pods": self._pods,
            "runc": shutil.which("runc"),
            "toolkit": cluster.toolkit,
            "nvml": nvml,
        }
        for template in (path for path in _FILES.rglob("*") if path.is_file()):
            file = self.folder / template.relative_to(_FILES)
            file.parent.mkdir(exist_ok=True)
            file.write_text(Template(template.read_text(encoding="utf-8")).substitute(words), encoding="utf-8")
        (self.folder / "nvidia-runtime").chmod(0o755)


class Cluster:
    """The control plane and its nodes, by name; a context manager that ends everything."""

    def __init__(self, folder: Path, machines: Mapping[str, Path]) -> None:
        """`machines` are the nodes' names with the folder of each one's NVML library and table."""
        self.folder = folder
        self.programs, self.toolkit = build.programs(), build.toolkit()
        self.images = [build.pause(folder), build.image(folder)]
        users = {f"system:node:{name}": "system:nodes" for name in machines}
        users |= dict.fromkeys(("system:kube-controller-manager", "system:kube-scheduler"), "")
        (folder / "server").mkdir()
        self.server = RealApiServer(find_binaries(), folder / "server", address=SERVICE, port=443, users=users)
        self.kubeconfig = folder / "kubeconfig"
        self.nodes = {name: Node(name, number, folder) for number, name in enumerate(machines, 1)}
        self._machines = machines
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for command in (
            ("link", "set", "lo", "up"),
            ("address", "add", f"{SERVICE}/32", "dev", "lo"),
            ("link", "add", "br0", "type", "bridge"),
            ("address", "add", f"{_GATEWAY}/24", "dev", "br0"),
            ("link", "set", "br0", "up"),
        ):
            run("ip", *command)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        with self._stack:
            for node in self.nodes.values():
                self._stack.callback(node.stop)
                node.start(self, self._machines[node.name])
            self._stack.enter_context(self.server)
            self.server.write_kubeconfig(self.kubeconfig)
            self.api = ApiUnderTest.of_real(self.server, self.kubeconfig)
            self._start_controllers()
            # A kubelet that waits for the API server never gets over it: `failed to initialize CSINode`.
            for node in self.nodes.values():
                node.want_kubelet()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _start_controllers(self) -> None:
        key = self.server.folder / "service-accounts.key"
        flags: dict[str, list[str | Path]] = {
            "kube-controller-manager": [
                *("--service-account-private-key-file", key, "--root-ca-file", self.server.ca_file),
                "--use-service-account-credentials",
                *("--node-monitor-period=1s", "--node-monitor-grace-period=8s"),
            ],
            "kube-scheduler": [],
        }
        for name, more in flags.items():
            kubeconfig = self.folder / f"{name}.kubeconfig"
            self.server.write_kubeconfig(kubeconfig, {"token": self.server.tokens[f"system:{name}"]})
            more += ["--kubeconfig", kubeconfig, "--leader-elect=false", "--cert-dir", self.folder]
            self._stack.enter_context(self.program(name, self.programs / name, *more))

    @contextlib.contextmanager
    def program(self, name: str, *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
        """A program beside the control plane, with its log in the cluster's folder."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def kubectl(self, *arguments: str | Path, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints, as an administrator."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            capture_output=True,
            text=True,
            check=False,
            input=stdin,
            timeout=300,
        )
        assert done.returncode == 0 or not check, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout + ("" if check else done.stderr)

    def rolled_out(self) -> None:
        """Wait until all pods of both programs run what was applied last."""
        for program in ("daemonset/toposcope-agent", "deployment/toposcope-controller"):
            self.kubectl("rollout", "status", "-n", NAMESPACE, program, "--timeout=120s")

    def has(self, path: str, condition: str) -> bool:
        """Whether a condition of an object is True; False while there is no such object."""
        code, body = self.api.request("GET", path)
        if code != 200:
            return False
        for entry in body.get("status", {}).get("conditions") or ():
            if entry["type"] == condition:
                return bool(entry["status"] == "True")
        return False

    def wait_for(self, path: str, condition: str, patience: float = _PATIENCE) -> None:
        """Wait until a condition of an object is True."""
        try:
            wait_until(lambda: self.has(path, condition), f"{path} is {condition}", patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {self.api.request('GET', path)[1].get('status')}") from error

    def install(self, folder: Path, *components: str, sysfs: Path | None = None) -> Path:
        """Apply the CRD, then the base with components, as docs/install.md says, and wait for the pods; the overlay.

        Only that agents spread their first writes over half a minute is left out; `sysfs` is what the switches see.
        """
        patches = yaml.safe_load(Template(_PATCHES.read_text(encoding="utf-8")).substitute(sysfs=sysfs))
        overlay = write_overlay(folder / "overlay", components, patches=patches if sysfs else patches[:1])
        self.kubectl("apply", "--server-side", "-k", MANIFESTS / "crds")
        self.wait_for(f"{CRDS}/clustertopologies.gpu.topology", "Established")
        self.kubectl("apply", "--server-side", "-k", overlay)
        self.rolled_out()
        return overlay

    def topology(self) -> dict[str, Any]:
        """The ClusterTopology `cluster`."""
        topology: dict[str, Any] = self.api.get(TOPOLOGY)
        return topology

    def main_process(self, node: str, program: str) -> psutil.Process:
        """The first process of the container that runs `agent` or `controller` on a node."""
        processes = self.nodes[node].processes("toposcope", program)
        (first,) = [process for process in processes if process.parent() not in processes]
        return first

    def agent_token_file(self, node: str) -> Path:
        """Where kubelet keeps that token; the agent sees it as it is at the moment."""
        token, first = self.agent_token(node), self.nodes[node].processes("containerd")[0]
        pods = Path(f"/proc/{first.pid}/root{self.folder}/{node}/kubelet/pods")
        (file,) = (f for f in pods.glob("*/volumes/kubernetes.io~projected/*/token") if f.read_text() == token)
        return file

    def agent_token(self, node: str) -> str:
        """The token that kubelet has given to a node's agent."""
        return Path(
            f"/proc/{self.main_process(node, 'agent').pid}/root/run/secrets/kubernetes.io/serviceaccount/token"
        ).read_text()

    def labels(self, node: str) -> dict[str, str]:
        """What is ours of a Node's labels."""
        labels = self.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        return {key: value for key, value in labels.items() if key.startswith("gpu.topology/")}

    def left_on_nodes(self) -> list[str]:
        """Keys of ours on Nodes."""
        items = [item["metadata"] for item in self.api.get(NODES)["items"]]
        keys = [key for metadata in items for part in ("labels", "annotations") for key in metadata[part]]
        return [key for key in keys if key.startswith("gpu.topology/")]

    def is_clean(self) -> None:
        """Wait until nothing of ours is left in the cluster, and look at the Nodes."""

        def left() -> list[str]:
            names = [item["metadata"]["name"] for path in _OURS for item in self.api.get(path)["items"]]
            return [name for name in names if "toposcope" in name or "gpu.topology" in name]

        wait_until(lambda: not left(), "nothing is left in the cluster", 60)
        assert self.left_on_nodes() == []

    def needs_half_its_memory(self, *components: str) -> None:
        """See that no container of them ever took more than half of its limit."""
        for component, pod in ((name, pod) for name in components for pod in self.pods(name)):
            (status,), (container,) = pod["status"]["containerStatuses"], pod["spec"]["containers"]
            peak = self.nodes[pod["spec"]["nodeName"]].peak_memory()[status["containerID"].rpartition("/")[2]]
            limit = container["resources"]["limits"]["memory"]
            half = int(limit[:-2]) << {"Mi": 19, "Gi": 29}[limit[-2:]]
            assert peak < half, f"{component}: {peak >> 20} MiB of {limit}"

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Our pods of a component that are not going."""
        selector = f"app.kubernetes.io/component%3D{component}"
        items = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def status_of(process: psutil.Process) -> dict[str, str]:
    """The lines of /proc/PID/status."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def remove_cgroups() -> None:
    """Remove the cgroups of nodes that are gone, the innermost first."""
    for hierarchy in (*hierarchies(), _CGROUPS / "unified"):
        for root in hierarchy.glob(f"{CGROUP}-*"):
            for folder, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
