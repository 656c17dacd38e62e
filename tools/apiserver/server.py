"""A real kube-apiserver on etcd.

Authorization (Node, RBAC) and the default admission plugins with NodeRestriction are on. No
controller runs: nothing makes service accounts, nothing empties namespaces, nothing schedules.
"""

import atexit
import base64
import contextlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tools.apiserver.build import BuildError, build, cache_folder, is_built, kubernetes_version
from tools.apiserver.certificates import make_certificates, private_pem
from tools.apiserver.client import HttpClient
from toposcope.errors import ToposcopeError
from toposcope.simulator.apiserver.server import kubeconfig

_POLL_SECONDS: Final = 0.05  # seconds
_START_SECONDS: Final = 90.0  # seconds; it takes two on an idle machine
# Go collects garbage late: a third less processor time than by default, for at most
# 700 MiB of memory.
_ENVIRONMENT = {"GOGC": "1600", "GOMEMLIMIT": "700MiB"}
# Before 1.36, a policy with variables that is compiled while another one is evaluated may end
# kube-apiserver by "concurrent map read and map write" (kubernetes/kubernetes#135757). Go does not
# preempt a write to a map, so on one processor there is no read beside it.
_ENVIRONMENT_OF_OLD_KUBERNETES = {"GOMAXPROCS": "1"}
_FIRST_MINOR_WITHOUT_THE_RACE: Final = 36
_LOG_CHARACTERS: Final = 600
_END_OF_GO: Final = re.compile(r"^(fatal error|panic): ", re.MULTILINE)


class UnavailableError(ToposcopeError):
    """There is no kube-apiserver to test against; the message says how to get one."""


class ServerError(ToposcopeError):
    """A server did not start or stop; the message says where the logs are and how they end."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The two programs."""

    etcd: Path
    kube_apiserver: Path

    @classmethod
    def in_folder(cls, folder: Path) -> "Binaries":
        """Programs under their usual names."""
        return cls(folder / "etcd", folder / "kube-apiserver")


def find_binaries() -> Binaries:
    """The programs that are there; else they are built. Raises UnavailableError."""
    binaries = installed_binaries()
    if binaries is not None:
        return binaries
    try:
        return Binaries.in_folder(build())
    except BuildError as error:
        raise UnavailableError(
            f"no kube-apiserver in {cache_folder()} and it cannot be built: {error}"
        ) from error


def installed_binaries() -> Binaries | None:
    """The programs in KUBEBUILDER_ASSETS, on PATH or in the cache, the first of them; else None.

    Raises UnavailableError for a KUBEBUILDER_ASSETS without them.
    """
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if is_built(Path(assets)):
            return Binaries.in_folder(Path(assets))
        raise UnavailableError(f"KUBEBUILDER_ASSETS={assets} does not hold etcd and kube-apiserver")
    etcd = shutil.which("etcd")
    apiserver = shutil.which("kube-apiserver")
    if etcd and apiserver:
        return Binaries(Path(etcd), Path(apiserver))
    if is_built(cache_folder()):
        return Binaries.in_folder(cache_folder())
    return None


class RealApiServer:
    """Two processes in a folder, a temporary one unless it is given.

    A context manager that starts and ends them.

    Ports and data stay the same when a process is started again. `users` are names with their
    group, beside the administrator; each has a token in `tokens`. `flags` are for kube-apiserver,
    beside the usual ones; `environment` is for both, beside that of this process.
    """

    def __init__(
        self,
        binaries: Binaries,
        folder: Path | None = None,
        *,
        address: str = "127.0.0.1",
        port: int | None = None,
        users: Mapping[str, str] = MappingProxyType({}),
        flags: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="toposcope-api-"))
        self._binaries = binaries
        self._flags = flags
        self._environment = environment
        etcd_port, peer_port, free_port = free_ports(3)
        self.address = address
        self.port = port or free_port
        self._etcd_url = f"http://127.0.0.1:{etcd_port}"
        self._peer_url = f"http://127.0.0.1:{peer_port}"
        self.url = f"https://{address}:{self.port}"
        groups = {"admin": "system:masters", **users}
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        self.admin_token = self.tokens["admin"]
        self._write_tokens(groups)
        self._write_signing_key()
        self.certificates = make_certificates(self.folder, address)
        self.ca_file = self.certificates.ca
        self.client = HttpClient(self.url, self.ca_file, timeout=30)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _write_tokens(self, groups: Mapping[str, str]) -> None:
        """Write kube-apiserver's file of tokens, a user with a group a line."""
        lines = []
        for user, group in groups.items():
            token = self.tokens[user]
            lines.append(f"{token},{user},{user},{group}\n")
        path = self.folder / "tokens.csv"
        path.write_text("".join(lines), encoding="utf-8")

    def _write_signing_key(self) -> None:
        """Write the key that signs tokens of ServiceAccounts."""
        key = ec.generate_private_key(ec.SECP256R1())
        path = self.folder / "service-accounts.key"
        path.write_bytes(private_pem(key))

    def start(self) -> None:
        """Start what does not run, and wait until the API server is ready. Raises ServerError."""
        # A run that ends without its fixtures must not leave servers behind.
        atexit.register(self.stop, keep_logs=True)
        self.launch()
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_ready():
            problem = self._ended()
            if not problem and time.monotonic() > deadline:
                problem = f"not ready after {_START_SECONDS:.0f} s"
            if problem:
                raise ServerError(f"{problem}; {self._logs()}")
            time.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise ServerError if a process ended by itself; `start` brings it back with its data."""
        problem = self._ended()
        if problem:
            raise ServerError(f"{problem}; {self._logs()}")

    def _ended(self) -> str:
        ended = []
        for name, process in self._processes.items():
            if process.poll() is not None:
                ended.append(name)
        if not ended:
            return ""
        return f"{' and '.join(ended)} ended"

    def launch(self) -> None:
        """Start what does not run."""
        environment = (
            go_environment(kubernetes_version()) | dict(os.environ) | dict(self._environment)
        )
        for name, command in (("etcd", self._etcd()), ("kube-apiserver", self._apiserver())):
            running = self._processes.get(name)
            if running is None or running.poll() is not None:
                with (self.folder / f"{name}.log").open("ab") as log:
                    self._processes[name] = subprocess.Popen(
                        command,
                        stdout=log,
                        stderr=log,
                        stdin=subprocess.DEVNULL,
                        cwd=self.folder,
                        env=environment,
                    )

    def pid(self, name: str) -> int:
        """The process of `etcd` or `kube-apiserver`."""
        return self._processes[name].pid

    def is_ready(self) -> bool:
        """Whether the API server answers and says that it is well."""
        with contextlib.suppress(OSError):
            return (
                self.client.request("GET", "/readyz", token=self.admin_token).code == HTTPStatus.OK
            )
        return False

    def keys(self) -> list[str]:
        """The key of each object that etcd stores, such as /registry/minions/NODE."""
        question = {
            "key": base64.b64encode(b"/registry/").decode(),
            "range_end": base64.b64encode(b"/registry0").decode(),
            "keys_only": True,
        }
        client = HttpClient(self._etcd_url, None)
        answer = client.request("POST", "/v3/kv/range", question)
        keys = [base64.b64decode(pair["key"]) for pair in answer.body["kvs"]]
        return [key.decode() for key in keys]

    def _logs(self) -> str:
        lines = [f"logs are in {self.folder}"]
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text(encoding="utf-8", errors="replace")
            lines.append(f"{path.name}: ...{_telling_part(text)}")
        return "\n".join(lines)

    def write_kubeconfig(
        self, path: Path, user: dict[str, str] | None = None, port: int | None = None
    ) -> None:
        """Write a kubeconfig that only its owner may read.

        It is the administrator's or `user`'s, and goes to a proxy where `port` is one's.
        """
        if user is None:
            user = {"token": self.admin_token}
        if port is None:
            port = self.port
        url = f"https://{self.address}:{port}"
        config = kubeconfig(url, self.ca_file, user)
        text = yaml.safe_dump(config)
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def kill(self, name: str) -> None:
        """End `etcd` or `kube-apiserver` by SIGKILL: nothing they hold is worth a graceful end."""
        process = self._processes[name]
        process.kill()
        process.wait()

    def stop(self, *, keep_logs: bool = False) -> None:
        """End both processes, the API server first; logs of one that ended by itself are kept."""
        atexit.unregister(self.stop)
        self.client.close()
        keep_logs = keep_logs or bool(self._ended())
        for name in reversed(list(self._processes)):
            self.kill(name)
        self._processes.clear()
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop(keep_logs=True)
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _etcd(self) -> list[Path | str]:
        return [
            *(
                self._binaries.etcd,
                "--data-dir",
                self.folder / "etcd",
                "--unsafe-no-fsync",
                "--log-level",
                "warn",
            ),
            *("--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url),
            *("--listen-peer-urls", self._peer_url),
        ]

    def _apiserver(self) -> list[Path | str]:
        folder, keys = self.folder, self.folder / "service-accounts.key"
        return [
            *(
                self._binaries.kube_apiserver,
                "--etcd-servers",
                self._etcd_url,
                "--cert-dir",
                folder,
            ),
            *("--bind-address", self.address, "--secure-port", str(self.port)),
            *(
                "--tls-cert-file",
                self.certificates.certificate,
                "--tls-private-key-file",
                self.certificates.key,
            ),
            *("--token-auth-file", folder / "tokens.csv", "--authorization-mode", "Node,RBAC"),
            *("--enable-admission-plugins", "NodeRestriction", "--allow-privileged"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", keys, "--service-account-signing-key-file", keys),
            *("--service-cluster-ip-range", "10.0.0.0/24", "--profiling=false", *self._flags),
        ]


def go_environment(version: str) -> dict[str, str]:
    """What etcd and a kube-apiserver of this version, such as v1.36.3, are started with."""
    minor = int(version.split(".")[1])
    if minor < _FIRST_MINOR_WITHOUT_THE_RACE:
        return _ENVIRONMENT | _ENVIRONMENT_OF_OLD_KUBERNETES
    return dict(_ENVIRONMENT)


def _telling_part(log: str) -> str:
    """The last words of a program, without the goroutines that Go prints after them."""
    found = _END_OF_GO.search(log)
    if found:
        return log[found.start() : found.start() + _LOG_CHARACTERS]
    return log[-_LOG_CHARACTERS:]


SHARED: Final[list[RealApiServer]] = []
"""At most one that runs already, for tests in forks of this process to share."""


def free_ports(count: int) -> list[int]:
    """TCP ports that nothing listens on, on any address.

    All are held until the last is known, so they differ. Another program may take one before it is
    used: a server that is started on it has to notice.
    """
    with contextlib.ExitStack() as held:
        return [
            held.enter_context(socket.create_server(("", 0))).getsockname()[1] for _ in range(count)
        ]


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]
