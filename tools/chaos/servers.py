"""etcd and a kube-apiserver that may be killed, stopped, started again, compacted and set back to an older state.

Unlike the test suite's server this one writes an audit log (who wrote what, and when) and keeps its ports and its data
from one start to the next.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.api import ApiUnderTest
from tests.support.certificates import make_certificates, private_pem
from tests.support.real_apiserver import Binaries
from toposcope.simulator.ports import free_ports

_PATIENCE: Final = 90.0
_LOOK: Final = 0.05
_PROGRAMS: Final = "system:serviceaccounts:toposcope-system"
"""The group of every token that agents and controllers have."""

_AUDIT: Final[dict[str, Any]] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {
            "level": "Request",
            "userGroups": [_PROGRAMS],
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
        },
        {"level": "None"},
    ],
}


class ServerError(Exception):
    """A server did not do what it was told; the message says where its log is."""


class Servers:
    """One etcd and one kube-apiserver in a folder; `stop` ends both."""

    def __init__(self, folder: Path, binaries: Binaries) -> None:
        self._folder = folder
        self._binaries = binaries
        ports = free_ports(3)
        self._etcd_url, self._peer_url = (f"http://127.0.0.1:{port}" for port in ports[:2])
        self.port = ports[2]
        self.token = secrets.token_hex(16)
        self.audit_log = folder / "audit.log"
        self.certificates = make_certificates(folder)
        (folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n", encoding="utf-8")
        (folder / "service-accounts.key").write_bytes(private_pem(ec.generate_private_key(ec.SECP256R1())))
        (folder / "audit.yaml").write_text(yaml.safe_dump(_AUDIT), encoding="utf-8")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        kubeconfig = folder / "admin.kubeconfig"
        self.write_kubeconfig(kubeconfig, self.port, folder / "tokens.csv", self.token)
        self.api = ApiUnderTest("real", self.url, kubeconfig, ca_file=self.certificates.ca, admin_token=self.token)

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self.port}"

    def write_kubeconfig(self, path: Path, port: int, token_file: Path, token: str = "") -> None:
        """A kubeconfig for whoever has the token in the file; `port` may be a proxy's."""
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(self.certificates.ca)}
        user = {"token": token} if token else {"tokenFile": str(token_file)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(config), encoding="utf-8")

    def start(self) -> None:
        """Start whatever of the two does not run, and wait until the API server is ready. Raises ServerError."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start whatever of the two does not run."""
        for name, command in (("etcd", self._etcd()), ("kube-apiserver", self._apiserver())):
            running = self._processes.get(name)
            if running is None or running.poll() is not None:
                with (self._folder / f"{name}.log").open("ab") as log:
                    self._processes[name] = subprocess.Popen(
                        command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder
                    )

    def wait_until_ready(self) -> None:
        """Wait until the API server says that it is ready. Raises ServerError."""
        deadline = time.monotonic() + _PATIENCE
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise ServerError(f"not ready after {_PATIENCE:.0f} s; logs are in {self._folder}")
            time.sleep(_LOOK)

    def is_ready(self) -> bool:
        """Whether the API server answers and says that it is well."""
        with contextlib.suppress(OSError):
            return self.api.request("GET", "/readyz")[0] == 200  # noqa: PLR2004 - HTTP's number
        return False

    def kill(self, name: str) -> None:
        """End one of them by SIGKILL, `etcd` or `kube-apiserver`."""
        process = self._processes[name]
        process.send_signal(signal.SIGCONT)  # a stopped one takes no other signal off the list of things to heal
        process.kill()
        process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send one of them a signal: SIGSTOP, SIGCONT."""
        os.kill(self._processes[name].pid, number)

    def compact(self) -> None:
        """Make etcd forget every version but the present one: watches that begin at an older one get 410."""
        found = self._ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"/").decode()})
        self._ask_etcd("/v3/kv/compaction", {"revision": found["header"]["revision"], "physical": True})

    def save(self) -> Path:
        """Copy etcd's data as it is now; `restore` sets it back to this."""
        copy = self._folder / "snapshot"
        shutil.rmtree(copy, ignore_errors=True)
        # Stopped, it changes nothing while it is copied: the copy is what a crash at this moment would leave behind.
        self.signal("etcd", signal.SIGSTOP)
        try:
            shutil.copytree(self._folder / "etcd", copy)
        finally:
            self.signal("etcd", signal.SIGCONT)
        return copy

    def restore(self, copy: Path) -> None:
        """Set etcd back to an earlier state, as an administrator does: both stop, data is replaced, both start."""
        self.kill("kube-apiserver")
        self.kill("etcd")
        data = self._folder / "etcd"
        shutil.rmtree(data)
        shutil.copytree(copy, data)

    def stop(self) -> None:
        """End both."""
        self.api.client.close()
        for name in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
        self._processes.clear()

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(self._etcd_url + path, data, timeout=5) as answer:  # noqa: S310 - a URL of ours
            found: dict[str, Any] = json.load(answer)
            return found

    def _etcd(self) -> list[Path | str]:
        return [
            *(self._binaries.etcd, "--data-dir", self._folder / "etcd", "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", self._etcd_url, "--advertise-client-urls", self._etcd_url),
            *("--listen-peer-urls", self._peer_url),
        ]

    def _apiserver(self) -> list[Path | str]:
        folder, keys = self._folder, self._folder / "service-accounts.key"
        return [
            *(self._binaries.kube_apiserver, "--etcd-servers", self._etcd_url, "--cert-dir", folder),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self.port)),
            *("--tls-cert-file", self.certificates.certificate, "--tls-private-key-file", self.certificates.key),
            *("--token-auth-file", folder / "tokens.csv", "--authorization-mode", "Node,RBAC"),
            *("--enable-admission-plugins", "NodeRestriction", "--allow-privileged"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--service-account-key-file", keys, "--service-account-signing-key-file", keys),
            *("--service-cluster-ip-range", "10.0.0.0/24", "--profiling=false"),
            *("--audit-policy-file", folder / "audit.yaml", "--audit-log-path", self.audit_log),
        ]
