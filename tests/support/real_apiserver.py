"""A real kube-apiserver on etcd, for as long as a test session lasts.

Authorization (Node, RBAC) and the default admission plugins with NodeRestriction are on. No controller runs:
nothing makes service accounts, nothing empties namespaces, nothing schedules.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.apiserver.build import BuildError, build, cache_folder, is_built
from tests.support.api import ALL, ApiUnderTest
from tests.support.certificates import make_certificates, private_pem
from tests.support.http_client import HttpClient
from toposcope.simulator.ports import free_ports

_START_TIMEOUT = 60.0  # seconds; it takes two on an idle machine
# Go collects garbage when the heap has grown fivefold, not doubled: a third less processor time for some hundred MiB.
_ENVIRONMENT = {"GOGC": "400", "GOMEMLIMIT": "700MiB"}


class UnavailableError(Exception):
    """There is no kube-apiserver to test against; the message says how to get one."""


class StartError(Exception):
    """The programs did not come up; the message shows where their logs are and how they end."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The two programs."""

    etcd: Path
    kube_apiserver: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Binaries:
        """Programs under their usual names."""
        return cls(folder / "etcd", folder / "kube-apiserver")


def find_binaries() -> Binaries:
    """Look in KUBEBUILDER_ASSETS, on PATH and in the cache, which is filled when Go is there."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        if is_built(Path(assets)):
            return Binaries.in_folder(Path(assets))
        raise UnavailableError(f"KUBEBUILDER_ASSETS={assets} does not hold etcd and kube-apiserver")
    etcd, apiserver = shutil.which("etcd"), shutil.which("kube-apiserver")
    if etcd and apiserver:
        return Binaries(Path(etcd), Path(apiserver))
    try:
        return Binaries.in_folder(build())
    except BuildError as error:
        raise UnavailableError(f"no kube-apiserver in {cache_folder()} and it cannot be built: {error}") from error


class RealApiServer:
    """Two processes in a temporary folder; a context manager that ends both."""

    def __init__(self, folder: Path, processes: list[subprocess.Popen[bytes]], url: str, admin_token: str) -> None:
        self.folder = folder
        self.url = url
        self.ca_file = folder / "ca.crt"
        self.admin_token = admin_token
        self._processes = processes
        self._stopped = threading.Event()
        self._client = HttpClient(url, self.ca_file)
        # A session that ends without its fixtures must not leave servers behind.
        atexit.register(self.stop)

    @classmethod
    def start(cls, binaries: Binaries) -> RealApiServer:
        """Start both programs and wait until the API server is ready; raises `StartError`."""
        folder = Path(tempfile.mkdtemp(prefix="toposcope-api-"))
        etcd_port, peer_port, port = free_ports(3)
        etcd_url, peer_url = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        token = secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n", encoding="utf-8")
        (folder / "service-accounts.key").write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))
        certificates = make_certificates(folder)
        etcd: list[Path | str] = [
            *(binaries.etcd, "--data-dir", folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url),
            *("--listen-peer-urls", peer_url),
        ]
        apiserver: list[Path | str] = [
            *(binaries.kube_apiserver, "--etcd-servers", etcd_url, "--cert-dir", folder),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
            *("--tls-cert-file", certificates.certificate, "--tls-private-key-file", certificates.key),
            *("--token-auth-file", folder / "tokens.csv", "--authorization-mode", "Node,RBAC"),
            *("--enable-admission-plugins", "NodeRestriction", "--allow-privileged"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", folder / "service-accounts.key"),
            *("--service-account-signing-key-file", folder / "service-accounts.key"),
            *("--service-cluster-ip-range", "10.0.0.0/24", "--profiling=false"),
        ]
        processes = [_run(folder, name, command) for name, command in (("etcd", etcd), ("kube-apiserver", apiserver))]
        server = cls(folder, processes, f"https://127.0.0.1:{port}", token)
        try:
            server._wait_until_ready()
        except BaseException:
            server.stop(keep_logs=True)
            raise
        return server

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            for process in self._processes:
                if process.poll() is not None:
                    raise StartError(f"a program ended at once; {self._logs()}")
            try:
                if self._client.request("GET", "/readyz", token=self.admin_token).code == 200:
                    return
            except OSError:
                pass  # not listening yet
            self._stopped.wait(0.05)
        raise StartError(f"not ready after {_START_TIMEOUT:.0f} s; {self._logs()}")

    def _logs(self) -> str:
        ends = [
            f"{path.name}: ...{path.read_text(encoding='utf-8', errors='replace')[-600:]}"
            for path in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join((f"logs are in {self.folder}", *ends))

    def kubeconfig(self, token: str | None = None) -> dict[str, Any]:
        """Kubeconfig of the administrator, or of whoever the token belongs to."""
        cluster = {"server": self.url, "certificate-authority": str(self.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token or self.admin_token}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
            "current-context": "real",
        }

    def under_test(self, kubeconfig: Path, module: str = ALL) -> ApiUnderTest:
        """This server as tests use it; `module` owns the CRDs that its tests share."""
        api = ApiUnderTest(
            "real", self.url, kubeconfig, ca_file=self.ca_file, admin_token=self.admin_token, module=module
        )
        api.client = self._client
        return api

    def write_kubeconfig(self, path: Path, token: str | None = None) -> None:
        """Write the kubeconfig to a file that only its owner can read."""
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(self.kubeconfig(token)), encoding="utf-8")

    def stop(self, *, keep_logs: bool = False) -> None:
        """End both processes, the API server first; does nothing the second time."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._client.close()
        atexit.unregister(self.stop)
        for process in reversed(self._processes):
            process.kill()  # nothing they hold is worth a graceful end
            process.wait()
        if not keep_logs:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()


def _run(folder: Path, name: str, command: list[Path | str]) -> subprocess.Popen[bytes]:
    environment = _ENVIRONMENT | os.environ
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=folder, env=environment)
