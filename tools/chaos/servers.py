"""etcd and a kube-apiserver with an audit log that may be stopped, compacted and set back."""

import base64
import contextlib
import json
import os
import shutil
import signal
import urllib.request
from pathlib import Path
from typing import Any, Final

from tools.apiserver.client import AdminApi
from tools.apiserver.server import Binaries, RealApiServer

_AUDIT: Final = Path(__file__).with_name("audit_policy.yaml")


class Servers(RealApiServer):
    """One etcd and one kube-apiserver with an audit log: who wrote what, and when."""

    def __init__(self, folder: Path, binaries: Binaries) -> None:
        super().__init__(binaries, folder)
        self.audit_log = folder / "audit.log"
        kubeconfig = folder / "admin.kubeconfig"
        self.write_kubeconfig(kubeconfig)
        self.api = AdminApi(
            "real",
            self.url,
            kubeconfig,
            self.ca_file,
            self.admin_token,
        )

    def _ended(self) -> str:
        """Of no account: a fault has ended the server, and `launch` starts it again."""
        return ""

    def kill(self, name: str) -> None:
        """End one of them by SIGKILL, `etcd` or `kube-apiserver`."""
        self.signal(name, signal.SIGCONT)  # so that a later SIGCONT has nothing to heal
        super().kill(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send one of them a signal: SIGSTOP, SIGCONT."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._processes[name].pid, number)

    def compact(self) -> None:
        """Make etcd forget every version but the present one.

        Watches that begin at an older one get 410.
        """
        answer = self._ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"/").decode()})
        self._ask_etcd(
            "/v3/kv/compaction", {"revision": answer["header"]["revision"], "physical": True}
        )

    def save(self) -> Path:
        """Copy etcd's data as it is now; `restore` sets it back to this."""
        copy = self.folder / "snapshot"
        shutil.rmtree(copy, ignore_errors=True)
        # Stopped, it changes nothing while it is copied: the copy is what a crash at this moment
        # would leave behind.
        self.signal("etcd", signal.SIGSTOP)
        try:
            shutil.copytree(self.folder / "etcd", copy)
        finally:
            self.signal("etcd", signal.SIGCONT)
        return copy

    def restore(self, copy: Path) -> None:
        """Set etcd back to an earlier state, as an administrator does.

        Both stop, data is replaced, both start.
        """
        self.kill("kube-apiserver")
        self.kill("etcd")
        data = self.folder / "etcd"
        shutil.rmtree(data)
        shutil.copytree(copy, data)

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        data = json.dumps(body).encode()
        with urllib.request.urlopen(self._etcd_url + path, data, timeout=5) as answer:  # noqa: S310 - a URL of ours
            return json.load(answer)

    def _apiserver(self) -> list[Path | str]:
        return [
            *super()._apiserver(),
            *("--audit-policy-file", _AUDIT, "--audit-log-path", self.audit_log),
        ]
