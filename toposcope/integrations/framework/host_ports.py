"""What the API server rejects in a pod's host ports.

Source: Kubernetes 1.36 (pkg/apis/core/validation: checkHostPortConflicts and
validateHostNetwork). Messages are the API server's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from toposcope.integrations.framework.document import Field

_RULE = "pods/host-port"


@dataclass(frozen=True, slots=True)
class _Port:
    """One port of a container that uses a port of the host."""

    where: Field
    number: int
    container_port: int
    name: str
    """Protocol, address and number, as the API server names it."""


def check_host_ports(spec: Field) -> bool:
    """Note what the API server rejects in the host ports. Returns whether there is any."""
    on_host = (spec / "hostNetwork").flag()
    is_refused = _check((spec / "containers").items(), is_on_host_network=on_host)
    for container in (spec / "initContainers").items():
        # they run one after another, so only ports of the same one collide
        is_refused |= _check(iter([container]), is_on_host_network=on_host)
    return is_refused


def _check(containers: Iterator[Field], *, is_on_host_network: bool) -> bool:
    used_ports: set[str] = set()
    is_refused = False
    for container in containers:
        for port in _ports(container, is_on_host_network=is_on_host_network):
            if is_on_host_network and port.number != port.container_port:
                message = "must match `containerPort` when `hostNetwork` is true"
                fix = f"set {port.container_port}, or remove hostPort"
                port.where.error(_RULE, message, fix)
                is_refused = True
            if port.name in used_ports:
                fix = "give each container a port of its own"
                port.where.error(_RULE, f"Duplicate value: {port.name}", fix)
                is_refused = True
            used_ports.add(port.name)
    return is_refused


def _ports(container: Field, *, is_on_host_network: bool) -> Iterator[_Port]:
    for port in (container / "ports").items():
        container_port = (port / "containerPort").number(0)
        number = (port / "hostPort").number(0)
        if is_on_host_network and not number:
            number = container_port
        if not number:
            continue
        protocol = (port / "protocol").text() or "TCP"
        address = (port / "hostIP").text() or ""
        name = f"{protocol}/{address}/{number}"
        yield _Port(port / "hostPort", number, container_port, name)
