"""What may happen to a node while its agent runs, each by a name: for whoever looks at all of it at once."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.support.simulated_node import Activity, SimulatedNode
from toposcope.kube.errors import ApiError, UnreachableError
from toposcope.simulator.faults import MachineFaults

Happening = Callable[[SimulatedNode], None]


def _fails_with(error: ApiError | UnreachableError) -> Happening:
    def happens(node: SimulatedNode) -> None:
        node.api.fails = error
        node.loses_links(0)

    return happens


def _driver_fails(nvml_error: int) -> Happening:
    def happens(node: SimulatedNode) -> None:
        node.loads_kernel_module()
        node.driver_fails(nvml_error)

    return happens


def _probe_fails(reason: str) -> Happening:
    return lambda node: node.probe_fails("no answer in step: nvmlInit", reason)


def _fabric_answers(gpu: int, **fields: int) -> Happening:
    def happens(node: SimulatedNode) -> None:
        node.faults = MachineFaults(fabric={gpu: fields})  # type: ignore[dict-item]  # the names of fields

    return happens


def _held_by_nouveau(node: SimulatedNode) -> None:
    node.hands_gpus_to("nouveau")
    node.driver_fails(12)


def _is_not_confined(node: SimulatedNode) -> None:
    node.is_confined = False


def _driver_loaded_late(node: SimulatedNode) -> None:
    node.unloads_kernel_module()
    node.driver_fails(12)
    node.container = {"nvidiactl": "absent"}
    node.run(minutes=30)
    node.loads_kernel_module()


def _fights_over_a_label(node: SimulatedNode) -> None:
    node.api.after_write = node.agent.node_changed
    node.is_tampered_with()


HAPPENINGS: Mapping[str, Happening] = {
    "nothing": lambda _node: None,
    "dead link": lambda node: node.loses_links(0, 2),
    "dead bridge": lambda node: node.loses_links(0),
    "library not found": _driver_fails(12),
    "driver not loaded": _driver_fails(9),
    "version mismatch": _driver_fails(18),
    "no permission": _driver_fails(4),
    "unknown error": _driver_fails(999),
    "driver loaded late": _driver_loaded_late,
    "probe hangs": _probe_fails("hang"),
    "probe crashes": _probe_fails("crash"),
    "probe is garbage": _probe_fails("garbage"),
    "bus hidden": lambda node: node.hides_pci_bus(),
    "passed through": lambda node: node.hands_gpus_to("vfio-pci"),
    "held by nouveau": _held_by_nouveau,
    "baseline lost": lambda node: node.loses_baseline(),
    "tampered": lambda node: node.is_tampered_with(),
    "fight": _fights_over_a_label,
    "not confined": _is_not_confined,
    "unreachable": _fails_with(UnreachableError("refused")),
    "unauthorized": _fails_with(ApiError(401, "Unauthorized", "Unauthorized")),
    "forbidden": _fails_with(ApiError(403, "Forbidden", "User cannot patch")),
    "not found": _fails_with(ApiError(404, "NotFound", 'nodes "n1" not found')),
    "conflict": _fails_with(ApiError(409, "Conflict", "changed meanwhile")),
    "too many requests": _fails_with(ApiError(429, "TooManyRequests", "slow down", 45)),
}
IN_A_FABRIC: Mapping[str, Happening] = {
    "dead links": lambda node: node.loses_links(0),
    "driver not loaded": _driver_fails(9),
    "another clique": _fabric_answers(1, clique=7),
    "registering": _fabric_answers(1, state=2),
    "registration failed": _fabric_answers(1, status=999),
    "bad health": _fabric_answers(1, health_mask=1),
}


MACHINES: Mapping[str, Mapping[str, Happening]] = {
    "t4-1": HAPPENINGS,
    "rtx3090-2-nvlink": HAPPENINGS,
    "gb200-nvl72-tray": IN_A_FABRIC,
}


def stories(folder: Path) -> Iterator[tuple[str, SimulatedNode, Activity]]:
    """Three machines before, while and after each thing happens: how they are, and what their agents did."""
    for profile, happenings in MACHINES.items():
        for name, happens in happenings.items():
            home = folder / profile / name.replace(" ", "-")
            node = SimulatedNode.of(profile, home)
            activity = node.run(minutes=2)
            yield f"{profile}: before {name}", node, activity
            happens(node)
            activity = node.run(minutes=6)
            yield f"{profile}: {name}", node, activity
            node.heals()
            node.api.fails = None
            activity = node.run(minutes=12)
            yield f"{profile}: after {name}", node, activity
