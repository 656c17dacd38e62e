"""kube-scheduler and Kueue beside a real kube-apiserver, as plain processes on the loopback interface."""

import base64
import contextlib
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any, Final

from tests.schedulers.build import Kueue
from tests.support.api import ApiUnderTest, create_namespace, create_service_account
from tools.apiserver.certificates import make_certificates
from tools.apiserver.client import wait_until
from tools.apiserver.server import RealApiServer, find_binaries, free_ports

_CONFIGURATION: Final = Path(__file__).with_name("kueue.yaml")
_PATIENCE: Final = 60.0
"""Seconds until a program must be at work."""
_IN_ETC: Final = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"')
"""Kueue looks for the certificate of its metrics in /etc and nowhere else, even where it serves no metrics."""


@contextlib.contextmanager
def api_server(folder: Path, *flags: str) -> Iterator[ApiUnderTest]:
    """A kube-apiserver of one's own, with the default ServiceAccount that pods need."""
    with RealApiServer(find_binaries(), flags=flags) as server:
        kubeconfig = folder / "kubeconfig"
        server.write_kubeconfig(kubeconfig)
        api = ApiUnderTest("real", server.url, kubeconfig, ca_file=server.ca_file, admin_token=server.admin_token)
        wait_until(
            lambda: api.request("GET", "/api/v1/namespaces/default")[0] == 200, "the namespace default", _PATIENCE
        )
        create_service_account(api, "default", "default")
        try:
            yield api
        finally:
            api.client.close()


@contextlib.contextmanager
def kube_scheduler(program: Path, api: ApiUnderTest, folder: Path, *more: str) -> Iterator[None]:
    """The default scheduler, with its default profile."""
    flags = [
        "--kubeconfig",
        str(api.kubeconfig),
        "--leader-elect=false",
        "--secure-port=0",
        "--authentication-skip-lookup",
        "--v=1",
        *more,
    ]
    with _running([program, *flags], folder / "kube-scheduler.log"):
        yield


@contextlib.contextmanager
def controller_manager(program: Path, api: ApiUnderTest, folder: Path, *more: str) -> Iterator[None]:
    """The controllers that make pods of Jobs, and that remove what has lost its owner."""
    flags = [
        "--kubeconfig",
        str(api.kubeconfig),
        "--leader-elect=false",
        "--secure-port=0",
        "--authentication-skip-lookup",
        "--controllers=job-controller,garbage-collector-controller",
        *more,
    ]
    with _running([program, *flags], folder / "kube-controller-manager.log"):
        yield


@contextlib.contextmanager
def kueue(installed: Kueue, api: ApiUnderTest, folder: Path) -> Iterator[None]:
    """Kueue with TopologyAwareScheduling; its webhooks are served by URL, which needs no Service."""
    health, webhook = free_ports(2)
    certificates = make_certificates(folder)
    etc = folder / "etc"
    for target in (folder, etc / "kueue" / "metrics" / "certs"):
        target.mkdir(parents=True, exist_ok=True)
        (target / "tls.crt").write_bytes(certificates.certificate.read_bytes())
        (target / "tls.key").write_bytes(certificates.key.read_bytes())
    template = Template(_CONFIGURATION.read_text(encoding="utf-8"))
    configuration = template.substitute(health=health, webhook=webhook, folder=folder)
    (folder / "kueue.yaml").write_text(configuration, encoding="utf-8")
    create_namespace(api, "kueue-system")
    for crd in installed.crds:
        api.install_crd(_without_conversion(crd))
    command = [
        *_IN_ETC,
        etc,
        installed.program,
        "--config",
        str(folder / "kueue.yaml"),
        "--kubeconfig",
        str(api.kubeconfig),
        "--feature-gates=TopologyAwareScheduling=true,VisibilityOnDemand=false",
    ]
    with _running(command, folder / "kueue.log") as process:
        wait_until(lambda: _listens(webhook, process), "Kueue serves its webhooks", _PATIENCE)
        address = f"https://127.0.0.1:{webhook}"
        for document in installed.webhooks:
            _register(api, document, address, certificates.ca.read_bytes())
        yield


def _listens(port: int, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Kueue ended"
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _without_conversion(crd: dict[str, Any]) -> dict[str, Any]:
    """Only the stored version is used here, so nothing has to convert."""
    spec = {**crd["spec"]}
    spec.pop("conversion", None)
    return {**crd, "spec": spec}


def _register(api: ApiUnderTest, document: dict[str, Any], address: str, authority: bytes) -> None:
    served = {"batch", "jobset.x-k8s.io", "kueue.x-k8s.io"}
    hooks = []
    for webhook in document["webhooks"]:
        groups: set[str] = set()
        for rule in webhook["rules"]:
            groups.update(rule["apiGroups"])
        if groups <= served:
            path = webhook["clientConfig"]["service"]["path"]
            config = {"url": address + path, "caBundle": base64.b64encode(authority).decode()}
            hooks.append({**webhook, "clientConfig": config})
    plural = document["kind"].lower() + "s"
    api.create(f"/apis/admissionregistration.k8s.io/v1/{plural}", {**document, "webhooks": hooks})


@contextlib.contextmanager
def _running(command: list[Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=log.parent)
        try:
            yield process
            assert process.poll() is None, f"{command[0]} ended: {log.read_text(errors='replace')[-1500:]}"
        finally:
            process.kill()
            process.wait()
