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
from tests.e2e.build import run, run_line
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
_NODE_NAMESPACES: Final = (
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--net",
    "--uts",
)
_CGROUP_CONTROLLERS: Final = (
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "systemd",
)
_HALVES: Final = {"Mi": 1 << 19, "Gi": 1 << 29}
"""Half of each unit of memory, in bytes."""


def hierarchies() -> list[Path]:
    """The roots of cgroups: one of each controller in version 1, one in version 2."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    roots = []
    for name in _CGROUP_CONTROLLERS:
        root = _CGROUPS / name
        if root.is_dir():
            roots.append(root)
    return roots


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
        token = cluster.server.tokens[f"system:node:{self.name}"]
        cluster.server.write_kubeconfig(self.folder / "kubeconfig", {"token": token})
        self._write_files(cluster, nvml)
        for hierarchy in hierarchies():
            self._make_cgroup(hierarchy)

        command: list[str | Path] = [
            "unshare",
            *_NODE_NAMESPACES,
            _SCRIPT,
            self.folder,
            self.name,
            self.address,
            cluster.programs["kubelet"],
            *cluster.images,
        ]
        with (self.folder / "node.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        namespaces = psutil.Process(self._pid)
        wait_until(
            lambda: bool(namespaces.children()),
            f"{self.name} has a first process",
        )
        self._connect(self.first_process.pid)

    @property
    def first_process(self) -> psutil.Process:
        """The one whose namespaces are the node's."""
        return psutil.Process(self._pid).children()[0]

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
                names = {Path(word).name for word in process.cmdline()}
                is_start = "unshare" in names or _SCRIPT.name in names
                if names.issuperset(words) and not is_start:
                    chosen.append(process)
        return chosen

    def logs(self, container: str) -> str:
        """What the containers of this name have written on the node."""
        text = ""
        for file in (self.folder / "pods").glob(f"*/{container}/*.log"):
            text += file.read_text(encoding="utf-8")
        return text

    def peak_memory(self) -> dict[str, int]:
        """Bytes that each container's cgroup took at most, by the container's id."""
        roots = {hierarchy.name: hierarchy for hierarchy in hierarchies()}
        root = roots.get("memory") or roots[_CGROUPS.name]
        folder = root / self._cgroup
        peaks = {}
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            for path in folder.rglob(name):
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
        if hierarchy.name != "cpuset":
            return
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 lets nothing in before they are set
            value = (hierarchy / name).read_text()
            (folder / name).write_text(value)

    def _connect(self, pid: int) -> None:
        """Join the bridge: eth0 of the namespace of `pid`."""
        run_line(f"ip link add {self.name} type veth peer name eth0 netns {pid}")
        run_line(f"ip link set {self.name} master br0 up")
        inside = f"nsenter --net=/proc/{pid}/ns/net"
        run_line(f"{inside} ip link set lo up")
        run_line(f"{inside} ip address add {self.address}/24 dev eth0")
        run_line(f"{inside} ip link set eth0 up")
        run_line(f"{inside} ip route add default via {_GATEWAY}")
        run(*inside.split(), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        run_line(f"ip route add {self._pods} via {self.address}")

    def _write_files(self, cluster: "Cluster", nvml: Path) -> None:
        """What its programs read: the files of `node/`, with what is so on this node in the place of `$word`."""
        has_no_such_field = kubernetes_version().startswith("v1.30.")
        words: dict[str, object] = {
            "folder": self.folder,
            "cgroup": self._cgroup,
            "cgroup_v1": "" if has_no_such_field else "failCgroupV1: false",
            "ca": cluster.server.ca_file,
            "pause": build.PAUSE,
            "pods": self._pods,
            "runc": shutil.which("runc"),
            "toolkit": cluster.toolkit,
            "nvml": nvml,
        }
        for path in _FILES.rglob("*"):
            if not path.is_file():
                continue
            file = self.folder / path.relative_to(_FILES)
            file.parent.mkdir(exist_ok=True)
            template = Template(path.read_text(encoding="utf-8"))
            file.write_text(template.substitute(words), encoding="utf-8")
        (self.folder / "nvidia-runtime").chmod(0o755)


class Cluster:
    """The control plane and its nodes, by name; a context manager that ends everything."""

    def __init__(self, folder: Path, machines: Mapping[str, Path]) -> None:
        """`machines` are the nodes' names with the folder of each one's NVML library and table."""
        self.folder = folder
        self.programs, self.toolkit = build.programs(), build.toolkit()
        self.images = [build.pause(folder), build.image(folder)]
        self.kubeconfig = folder / "kubeconfig"
        self._machines = machines
        self.nodes: dict[str, Node] = {}
        users = {
            "system:kube-controller-manager": "",
            "system:kube-scheduler": "",
            "system:kube-proxy": "",
        }
        for number, name in enumerate(machines, 1):
            self.nodes[name] = Node(name, number, folder)
            users[f"system:node:{name}"] = "system:nodes"
        (folder / "server").mkdir()
        self.server = RealApiServer(
            find_binaries(),
            folder / "server",
            address=SERVICE,
            port=443,
            users=users,
        )
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        run_line("ip link set lo up")
        run_line(f"ip address add {SERVICE}/32 dev lo")
        run_line("ip link add br0 type bridge")
        run_line(f"ip address add {_GATEWAY}/24 dev br0")
        run_line("ip link set br0 up")
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
        flags = {
            "kube-controller-manager": [
                f"--service-account-private-key-file={key}",
                f"--root-ca-file={self.server.ca_file}",
                "--use-service-account-credentials",
                "--node-monitor-period=1s",
                "--node-monitor-grace-period=8s",
            ],
            "kube-scheduler": [],
        }
        for name, own_flags in flags.items():
            kubeconfig = self.folder / f"{name}.kubeconfig"
            token = self.server.tokens[f"system:{name}"]
            self.server.write_kubeconfig(kubeconfig, {"token": token})
            program = self.program(
                name,
                self.programs[name],
                *own_flags,
                f"--kubeconfig={kubeconfig}",
                "--leader-elect=false",
                f"--cert-dir={self.folder}",
            )
            self._stack.enter_context(program)

    @contextlib.contextmanager
    def program(self, name: str, *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
        """A program beside the control plane, with its log in the cluster's folder."""
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextlib.contextmanager
    def with_services(self) -> Iterator[None]:
        """kube-proxy on every node: only then pods reach the addresses of Services."""
        kubeconfig = self.folder / "kube-proxy.kubeconfig"
        token = self.server.tokens["system:kube-proxy"]
        self.server.write_kubeconfig(kubeconfig, {"token": token})
        with contextlib.ExitStack() as stack:
            for node in self.nodes.values():
                program = self.program(
                    f"kube-proxy-{node.name}",
                    "nsenter",
                    f"--net=/proc/{node.first_process.pid}/ns/net",
                    build.kube_proxy(),
                    f"--kubeconfig={kubeconfig}",
                    f"--hostname-override={node.name}",
                    "--proxy-mode=iptables",
                    "--cluster-cidr=10.244.0.0/16",
                    "--conntrack-max-per-core=0",
                    "--conntrack-tcp-timeout-established=0s",
                    "--conntrack-tcp-timeout-close-wait=0s",
                )
                stack.enter_context(program)
            yield

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
        if not check:
            return done.stdout + done.stderr
        line = " ".join(map(str, arguments))
        assert done.returncode == 0, f"kubectl {line}: {done.stderr}"
        return done.stdout

    def rolled_out(self) -> None:
        """Wait until all pods of both programs run what was applied last."""
        for program in ("daemonset/toposcope-agent", "deployment/toposcope-controller"):
            self.wait_for_rollout(program, seconds=120)

    def wait_for_rollout(self, program: str, *, seconds: int) -> None:
        """Wait until all pods of a program run what was applied last."""
        self.kubectl(
            "rollout",
            "status",
            program,
            "--namespace",
            NAMESPACE,
            f"--timeout={seconds}s",
        )

    def has(self, path: str, condition: str) -> bool:
        """Whether a condition of an object is True; False while there is no such object."""
        code, body = self.api.request("GET", path)
        if code != 200:
            return False
        status = body.get("status", {})
        for entry in status.get("conditions") or ():
            if entry["type"] == condition:
                return bool(entry["status"] == "True")
        return False

    def wait_for(self, path: str, condition: str, patience: float = _PATIENCE) -> None:
        """Wait until a condition of an object is True."""
        try:
            wait_until(
                lambda: self.has(path, condition),
                f"{path} is {condition}",
                patience,
            )
        except AssertionError as error:
            _, body = self.api.request("GET", path)
            raise AssertionError(f"{error}; it is {body.get('status')}") from error

    def install(self, folder: Path, *components: str, sysfs: Path | None = None) -> Path:
        """Apply the CRD, then the base with components, as docs/install.md says, and wait for the pods; the overlay.

        Only that agents spread their first writes over half a minute is left out; `sysfs` is what the switches see.
        """
        template = Template(_PATCHES.read_text(encoding="utf-8"))
        patches = yaml.load(template.substitute(sysfs=sysfs), yaml.CSafeLoader)
        overlay = write_overlay(
            folder / "overlay",
            components,
            patches=patches if sysfs else patches[:1],
        )
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
        firsts = []
        for process in processes:
            if process.parent() not in processes:
                firsts.append(process)
        (first,) = firsts
        return first

    def agent_token_file(self, node: str) -> Path:
        """Where kubelet keeps that token; the agent sees it as it is at the moment."""
        token = self.agent_token(node)
        first = self.nodes[node].processes("containerd")[0]
        pods = Path(f"/proc/{first.pid}/root{self.folder}/{node}/kubelet/pods")
        files = []
        for file in pods.glob("*/volumes/kubernetes.io~projected/*/token"):
            if file.read_text() == token:
                files.append(file)
        (agents_file,) = files
        return agents_file

    def agent_token(self, node: str) -> str:
        """The token that kubelet has given to a node's agent."""
        agent = self.main_process(node, "agent")
        root = Path(f"/proc/{agent.pid}/root")
        file = root / "run/secrets/kubernetes.io/serviceaccount/token"
        return file.read_text()

    def labels(self, node: str) -> dict[str, str]:
        """What is ours of a Node's labels."""
        metadata = self.api.get(f"{NODES}/{node}")["metadata"]
        ours = {}
        for key, value in metadata["labels"].items():
            if key.startswith("gpu.topology/"):
                ours[key] = value
        return ours

    def left_on_nodes(self) -> list[str]:
        """Keys of ours on Nodes."""
        left = []
        for node in self.api.get(NODES)["items"]:
            metadata = node["metadata"]
            for key in [*metadata["labels"], *metadata["annotations"]]:
                if key.startswith("gpu.topology/"):
                    left.append(key)
        return left

    def is_clean(self) -> None:
        """Wait until nothing of ours is left in the cluster, and look at the Nodes."""

        def left() -> list[str]:
            ours = []
            for path in _OURS:
                for item in self.api.get(path)["items"]:
                    name = item["metadata"]["name"]
                    if "toposcope" in name or "gpu.topology" in name:
                        ours.append(name)
            return ours

        wait_until(lambda: not left(), "nothing is left in the cluster", 60)
        assert self.left_on_nodes() == []

    def needs_half_its_memory(self, *components: str) -> None:
        """See that no container of them ever took more than half of its limit."""
        for component in components:
            for pod in self.pods(component):
                peak = self._peak_memory_of(pod)
                (container,) = pod["spec"]["containers"]
                limit = container["resources"]["limits"]["memory"]
                half = int(limit[:-2]) * _HALVES[limit[-2:]]
                assert peak < half, f"{component}: {peak >> 20} MiB of {limit}"

    def _peak_memory_of(self, pod: dict[str, Any]) -> int:
        """Bytes that the only container of a pod took at most."""
        (status,) = pod["status"]["containerStatuses"]
        _, _, container_id = status["containerID"].rpartition("/")
        node = self.nodes[pod["spec"]["nodeName"]]
        return node.peak_memory()[container_id]

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Our pods of a component that are not going."""
        selector = f"app.kubernetes.io/component%3D{component}"
        pods = self.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}")
        staying = []
        for pod in pods["items"]:
            if "deletionTimestamp" not in pod["metadata"]:
                staying.append(pod)
        return staying


def status_of(process: psutil.Process) -> dict[str, str]:
    """The lines of /proc/PID/status."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    status = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        status[name] = value.strip()
    return status


def remove_cgroups() -> None:
    """Remove the cgroups of nodes that are gone, the innermost first."""
    for hierarchy in (*hierarchies(), _CGROUPS / "unified"):
        for root in hierarchy.glob(f"{CGROUP}-*"):
            for folder, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
