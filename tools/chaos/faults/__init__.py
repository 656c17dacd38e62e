"""The faults, by name: each can be put in and taken out again, any of them together."""

from tools.chaos.faults import hardware, hosts, leadership, objects, server
from tools.chaos.faults.model import Fault, Scope

FAULTS: dict[str, Fault] = {
    fault.name: fault for module in (server, leadership, objects, hardware, hosts) for fault in module.FAULTS
}

__all__ = ["FAULTS", "Fault", "Scope"]
