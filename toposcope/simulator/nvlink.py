"""NVLink wiring: which port of which GPU is connected to what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from toposcope.api.yaml_text import load
from toposcope.errors import ToposcopeError
from toposcope.simulator.faults import LinksByGpu
from toposcope.simulator.machine import NvLinkPort, Remote

_NUMBERS: Final[dict[str, dict[str, Any]]] = load(
    Path(__file__).with_name("numbers.yaml").read_bytes()
)
ARCHITECTURES: Final[dict[str, int]] = _NUMBERS["architectures"]
NVLINK_VERSIONS: Final[dict[str, int]] = _NUMBERS["nvlink versions"]
PRODUCTS: Final[dict[str, tuple[str, str | None]]] = _NUMBERS["products"]
"""Part of a product's name to its architecture and NVLink version."""


class WiringError(ToposcopeError, ValueError):
    """A wiring that names what is not there."""


@dataclass(frozen=True, slots=True)
class NvLinkWiring:
    """The NVLinks of a machine; every GPU has the same number of ports."""

    pairs: tuple[tuple[int, int, int], ...] = ()
    """GPU, GPU, number of links between them."""
    switched: int = 0
    """Links of each GPU into NVSwitches."""
    cpu: int = 0
    """Links of each GPU into its CPU."""
    ports: int = 0
    """Link ports of each GPU when more than are wired; the rest are inactive."""
    inactive: LinksByGpu = field(default_factory=dict)
    """GPU to its dead links. The far end of a direct link is dead too."""


def wire(
    wiring: NvLinkWiring, gpus: Sequence[str], switches: Sequence[str]
) -> list[tuple[NvLinkPort, ...]]:
    """The links of every GPU, given PCI addresses. Raises WiringError.

    Without `switches`, the switched links end out of sight.
    """
    links: list[list[NvLinkPort]] = [[] for _ in gpus]
    for a, b, count in wiring.pairs:
        _join(links, gpus, a, b, count)

    used = dict.fromkeys(switches, 0)
    to_cpu = NvLinkPort(Remote.CPU)
    nowhere = NvLinkPort(Remote.UNKNOWN, is_active=False)
    for own in links:
        own.extend(_into_switches(wiring.switched, used))
        own.extend([to_cpu] * wiring.cpu)
        wired = len(own)
        ports = wiring.ports
        if ports and wired > ports:
            raise WiringError(
                f"links: {wired} are wired but each GPU has {ports} ports; raise `links`"
            )
        unwired = ports - wired
        own.extend([nowhere] * unwired)

    for gpu, dead in wiring.inactive.items():
        for number in _dead_links(links, gpu, dead):
            _cut(links, gpus, gpu, number)
    return [tuple(own) for own in links]


def _join(links: list[list[NvLinkPort]], gpus: Sequence[str], a: int, b: int, count: int) -> None:
    """Add direct links between two GPUs."""
    total = len(gpus)
    is_beyond = a >= total or b >= total
    if a == b or is_beyond:
        problem = f"no direct link can join GPU {a} and GPU {b} of {total}"
        raise WiringError(f"pairs: {problem}")

    of_a = links[a]
    of_b = links[b]
    for _ in range(count):
        number_at_a = len(of_a)
        number_at_b = len(of_b)
        to_b = NvLinkPort(Remote.GPU, gpus[b], number_at_b)
        to_a = NvLinkPort(Remote.GPU, gpus[a], number_at_a)
        of_a.append(to_b)
        of_b.append(to_a)


def _dead_links(
    links: Sequence[Sequence[NvLinkPort]], gpu: int, dead: frozenset[int] | Literal["all"]
) -> Iterable[int]:
    """The numbers of a GPU's dead links; raises WiringError where it has no such link."""
    if gpu < len(links):
        count = len(links[gpu])
        if dead == "all":
            return range(count)
        if max(dead, default=-1) < count:
            return dead
    raise WiringError(f"inactive: GPU {gpu} has no such link or does not exist")


def _into_switches(count: int, used: dict[str, int]) -> Iterator[NvLinkPort]:
    """Links spread over the switches in turn; `used` counts the ports taken on each."""
    names = list(used)
    for number in range(count):
        if names:
            switch = names[number % len(names)]
            yield NvLinkPort(Remote.SWITCH, switch, used[switch])
            used[switch] += 1
        else:
            yield NvLinkPort(Remote.SWITCH)


def _cut(links: list[list[NvLinkPort]], gpus: Sequence[str], gpu: int, number: int) -> None:
    link = links[gpu][number]
    links[gpu][number] = replace(link, is_active=False)
    if link.remote is not Remote.GPU or link.address is None:
        return

    peer = gpus.index(link.address)
    peer_links = links[peer]
    far_end = peer_links[link.remote_link]
    peer_links[link.remote_link] = replace(far_end, is_active=False)
