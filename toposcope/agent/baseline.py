"""The best state that a node has shown, in an annotation of its own Node.

It is there so that a restarted agent knows it too.

    {"version":1,"product":"NVIDIA H200","gpus":{"0000:1b:00.0":18,...},
     "paths":["X","NV18 X",...],"fabric":true,"uuids":{"0000:1b:00.0":"GPU-..."},
     "accepted":["gpu-absent:0000:8a:00.0"]}

`gpus` maps PCI addresses to active NVLinks, `paths` is the lower triangle of the GPUs' link matrix
in that order, `fabric` is there when the node was in a multi-node NVLink fabric. `uuids` tells GPUs
apart when firmware numbers the buses anew; `products` is there when they differ. Annotations of
earlier agents have neither.

`accepted` is there once an admin has accepted the node's state, with the keys of the faults of that
time: then this baseline is what the node should be, whatever its board wires. An accepted fault
that heals is forgotten, so that it is a fault again when it comes back.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from toposcope.agent.annotation import printable_ascii
from toposcope.agent.discover import is_path_known
from toposcope.agent.faults import Fault, FaultKind
from toposcope.agent.raw import typed
from toposcope.hardware.matrix import SELF, nv_links
from toposcope.hardware.pci import NEAREST_FIRST, SYS
from toposcope.hardware.topology import Fabric, Gpu, NodeTopology
from toposcope.text import compact, parse, plural

VERSION: Final = 1
_LIMIT_CHARACTERS: Final = 16384
"""A baseline of 16 GPUs is 2 kB; a longer text is not ours."""
_MOST_ACCEPTED_FAULTS: Final = 64
_UUID: Final = re.compile(r"[!-~]{1,64}")
_KEY: Final = re.compile(r"[ -~]{1,96}")
"""Of an accepted fault."""
_MOST_PRODUCT_CHARACTERS: Final = 96
"""NVML_DEVICE_NAME_V2_BUFFER_SIZE."""
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


_Value = TypeVar("_Value")


class Baseline(NamedTuple):
    """What the node is measured against.

    A GPU is known by its PCI address, by its UUID where another one has that.
    """

    product: str | None
    links: Mapping[str, int]
    """GPU to its active NVLinks."""
    paths: Mapping[tuple[str, str], str]
    """Pair of GPUs (smaller first) to the cell of the link matrix."""
    is_in_fabric: bool = False
    """Whether the node was in a multi-node NVLink fabric.

    A tray whose fabric is down reports that it has none.
    """
    uuids: Mapping[str, str] = _NOTHING
    """GPU to its UUID, where that is known."""
    products: Mapping[str, str] = _NOTHING
    """GPU to its product, if not all have the same."""
    accepted: frozenset[str] | None = None
    """Keys of the accepted faults; None: this node's state was not accepted."""

    def product_of(self, gpu: str) -> str | None:
        """A GPU's product, as far as is known."""
        return self.products.get(gpu) if self.products else self.product

    def all_products(self) -> set[str]:
        """The products of all GPUs, as far as is known."""
        products = set(self.products.values())
        if self.product is not None:
            products.add(self.product)
        return products


class Comparison(NamedTuple):
    """A node beside its past."""

    baseline: Baseline
    """The new one, by today's addresses."""
    gone: tuple[str, ...]
    """GPUs of the baseline that are neither in NVML nor on the PCI bus."""
    replaced: int = 0
    """How many others came meanwhile, fewer than are gone.

    Nothing tells which of the gone they stand for.
    """


def observed(topology: NodeTopology) -> Baseline:
    """The present state as a baseline: what NVML said, without what it refused to say."""
    links: dict[str, int] = {}
    products: dict[str, str] = {}
    for gpu in topology.gpus:
        if gpu.links_known:
            links[gpu.pci] = gpu.links_active
        product = _plain(gpu.product)
        if product:
            products[gpu.pci] = product
    several = len(set(products.values())) > 1
    return Baseline(
        product=next(iter(products.values()), None),
        links=links,
        paths=_paths(topology),
        is_in_fabric=topology.fabric is Fabric.COMPLETED,
        uuids={pci: uuid for uuid, pci in _by_uuid(topology.gpus).items()},
        products=products if several else _NOTHING,
    )


def _plain(product: str | None) -> str | None:
    """A product's name in printable ASCII, as the annotation has it.

    Drivers that are damaged answer anything.
    """
    return None if product is None else printable_ascii(product)[:_MOST_PRODUCT_CHARACTERS]


def _paths(topology: NodeTopology) -> dict[tuple[str, str], str]:
    paths = {}
    for i, a in enumerate(topology.gpus):
        for j, b in enumerate(topology.gpus[:i]):
            if not a.links_known or not b.links_known:
                continue
            if is_path_known(topology.matrix, topology.pci_levels, i, j):
                pair = _pair(a.pci, b.pci)
                paths[pair] = topology.matrix.cells[i][j]
    return paths


def _by_uuid(gpus: Iterable[Gpu]) -> dict[str, str]:
    """UUID to address; without those that several GPUs claim, and those that no UUID can be."""
    addresses: dict[str, str] = {}
    ambiguous = set()
    for gpu in gpus:
        if not gpu.uuid or not _UUID.fullmatch(gpu.uuid):
            continue
        if gpu.uuid in addresses:
            ambiguous.add(gpu.uuid)
        addresses[gpu.uuid] = gpu.pci
    for uuid in ambiguous:
        del addresses[uuid]
    return addresses


def compare(past: Baseline | None, topology: NodeTopology, absent: Iterable[str]) -> Comparison:
    """The node beside its past, and the new baseline: for each GPU and pair the better of both.

    `absent` are the addresses of the GPUs on the PCI bus that NVML does not list. Other hardware
    has no past: when the product changed, or when GPUs are gone while as many others came (boards
    were moved, firmware renumbered the buses).
    """
    today = observed(topology)
    if past is None or _has_only_other_products(past, today):
        return Comparison(today, ())
    past = _moved(past, topology)
    here = {*absent}
    for gpu in topology.gpus:
        here.add(gpu.pci)
    gone = past.links.keys() - here
    came = here - past.links.keys() - past.uuids.keys()
    if not gone:
        return Comparison(_better(past, today), ())
    if len(came) >= len(gone):
        remaining = _only(past, past.links.keys() - gone)
        return Comparison(_better(remaining, today), ())
    if came:
        # nothing tells which of the gone they replace
        today = _only(today, today.links.keys() - came)
    return Comparison(
        baseline=_better(past, today),
        gone=tuple(sorted(gone)),
        replaced=len(came),
    )


def _has_only_other_products(past: Baseline, today: Baseline) -> bool:
    """Whether none of the GPUs can be one of the past: other products, and no UUID of that time."""
    uuids = set(past.uuids.values())
    if not uuids.isdisjoint(today.uuids.values()):
        return False
    before = past.all_products()
    now = today.all_products()
    return bool(before and now) and before.isdisjoint(now)


def _moved(past: Baseline, topology: NodeTopology) -> Baseline:
    """The past by today's addresses.

    A GPU that is nowhere keeps its address, unless another one is there now.
    """
    places = _places(past, topology)
    addresses_now = {gpu.pci for gpu in topology.gpus}
    for before in (*past.links, *past.uuids):
        if before in places:
            continue
        if before not in addresses_now:
            places[before] = before
        elif before in past.uuids:
            places[before] = past.uuids[before]
    return _renamed(past, places)


def _places(past: Baseline, topology: NodeTopology) -> dict[str, str]:
    """Where the GPUs of the past are now.

    A GPU is the one with its UUID, else the one at its address: a card that replaced another has
    its place in the machine, and should have as many links. A GPU of another product is another
    GPU.
    """
    now_at = _by_uuid(topology.gpus)
    places: dict[str, str] = {}
    for before, uuid in past.uuids.items():
        if uuid in now_at:
            places[before] = now_at[uuid]
    identified = set(places.values())
    for gpu in topology.gpus:
        address = gpu.pci
        if address in places or address in identified:
            continue
        if address not in past.links and address not in past.uuids:
            continue
        product = past.product_of(address)
        if _can_be(product, _plain(gpu.product)):
            places[address] = address
    return places


def _can_be(before: str | None, now: str | None) -> bool:
    return before is None or now is None or before == now


def _renamed(past: Baseline, places: Mapping[str, str]) -> Baseline:
    """The baseline with other names for its GPUs, without those that get none."""
    paths = {}
    for (a, b), cell in past.paths.items():
        if a in places and b in places:
            paths[_pair(places[a], places[b])] = cell
    return past._replace(
        links=_moved_keys(past.links, places),
        paths=paths,
        uuids=_moved_keys(past.uuids, places),
        products=_moved_keys(past.products, places),
    )


def _moved_keys(by_gpu: Mapping[str, _Value], places: Mapping[str, str]) -> dict[str, _Value]:
    return {places[gpu]: value for gpu, value in by_gpu.items() if gpu in places}


def _only(baseline: Baseline, gpus: Iterable[str]) -> Baseline:
    return _renamed(baseline, {gpu: gpu for gpu in gpus})


def _better(past: Baseline, today: Baseline) -> Baseline:
    links = dict(past.links)
    for gpu, count in today.links.items():
        links[gpu] = max(count, links.get(gpu, 0))
    paths = dict(past.paths)
    for pair, cell in today.paths.items():
        paths[pair] = min(cell, paths.get(pair, cell), key=_rank)
    uuids = {**past.uuids, **today.uuids}
    return Baseline(
        product=today.product or past.product,
        links=links,
        paths=paths,
        is_in_fabric=past.is_in_fabric or today.is_in_fabric,
        uuids=uuids,
        products=_products(past, today, links),
        accepted=past.accepted,
    )


def _products(past: Baseline, today: Baseline, gpus: Iterable[str]) -> Mapping[str, str]:
    """Each GPU's product, if they differ."""
    products = {}
    for gpu in gpus:
        source = today if gpu in today.links else past
        product = source.product_of(gpu) or past.product_of(gpu)
        if product:
            products[gpu] = product
    return products if len(set(products.values())) > 1 else _NOTHING


def _pair(a: str, b: str) -> tuple[str, str]:
    return (a, b) if a < b else (b, a)


def _rank(cell: str) -> tuple[int, int]:
    """Smaller is nearer: NVLinks first, more before fewer, then the PCI levels."""
    links = nv_links(cell)
    if links:
        return 0, -links
    if cell in NEAREST_FIRST:
        return 1, NEAREST_FIRST.index(cell)
    return 1, len(NEAREST_FIRST)


def links_to(baseline: Baseline, gpu: str, others: Iterable[str]) -> int:
    """The direct links between a GPU and some others, in the baseline.

    0 where its links go through switches: there every peer is reached over all links, so that the
    cells add up to more links than there are.
    """
    to_each = {}
    for peer in baseline.links:
        if peer != gpu:
            to_each[peer] = nv_links(baseline.paths.get(_pair(gpu, peer), SYS))
    if sum(to_each.values()) > baseline.links.get(gpu, 0):
        return 0
    links = 0
    for peer in others:
        links += to_each.get(peer, 0)
    return links


def degradations(
    past: Comparison, topology: NodeTopology, excused: frozenset[str] = frozenset()
) -> list[Fault]:
    """What the node has less of than it has shown before.

    Paths to `excused` GPUs, whose links are off, don't count.
    """
    baseline = past.baseline
    today = observed(topology)
    faults = list(_gone(past))
    if baseline.is_in_fabric and topology.fabric is Fabric.NOT_SUPPORTED:
        faults.append(Fault(FaultKind.FABRIC_LEFT))
    uncounted = set(excused)
    for gpu, count in today.links.items():
        # A GPU with fewer links has worse paths to all others: `discover.weak_links` reports it.
        before = baseline.links.get(gpu, 0)
        if count < before:
            uncounted.add(gpu)
    faults += _worse_paths(baseline, today, topology, uncounted)
    return faults


def _worse_paths(
    baseline: Baseline, today: Baseline, topology: NodeTopology, uncounted: AbstractSet[str]
) -> Iterator[Fault]:
    indices = {gpu.pci: gpu.index for gpu in topology.gpus}
    for pair, cell in sorted(today.paths.items()):
        before = baseline.paths.get(pair, cell)
        if _rank(cell) <= _rank(before) or not uncounted.isdisjoint(pair):
            continue
        first, second = pair
        from_index, to_index = indices[first], indices[second]
        yield Fault(
            FaultKind.PATH_WORSE,
            subject=f"{first} {second}",
            where=f"GPU {from_index} to GPU {to_index}",
            detail=f"{cell}, was {before}",
            gpu=from_index,
        )


def _gone(past: Comparison) -> Iterator[Fault]:
    if past.replaced:
        yield _some_gone(past)
        return
    for gpu in past.gone:
        named_by_uuid = gpu.startswith("GPU-")
        yield Fault(
            FaultKind.GPU_GONE,
            subject=past.baseline.uuids.get(gpu, gpu),
            where=gpu if named_by_uuid else f"GPU {gpu}",
        )


def _some_gone(past: Comparison) -> Fault:
    count = len(past.gone) - past.replaced
    names = ", ".join(past.gone)
    verb = plural(count, "is", "are")
    return Fault(
        FaultKind.GPUS_GONE,
        subject=names,
        detail=(
            f"{count} of the GPUs {names} {verb} gone; it is unknown which, "
            "because new GPUs appeared"
        ),
    )


def encode(baseline: Baseline) -> str:
    """The annotation's value, of at most 16 KiB.

    On no known machine anything is left out for it.
    """
    document = _written(baseline)
    text = compact(document)
    steps: tuple[dict[str, Any], ...] = (
        {"products": {}},
        {"uuids": {}},
        {"product": None, "gpus": {}, "paths": []},
    )
    for smaller in steps:
        if len(text) > _LIMIT_CHARACTERS:
            document |= smaller
            text = compact(document)
    return text


def _written(baseline: Baseline) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version": VERSION,
        "product": baseline.product,
        "gpus": dict(sorted(baseline.links.items())),
        "paths": _rows(baseline),
    }
    if baseline.is_in_fabric:
        document["fabric"] = True
    if baseline.uuids:
        document["uuids"] = dict(sorted(baseline.uuids.items()))
    if baseline.products:
        document["products"] = dict(sorted(baseline.products.items()))
    if baseline.accepted is not None:
        accepted = sorted(baseline.accepted)
        document["accepted"] = accepted[:_MOST_ACCEPTED_FAULTS]
    return document


def _rows(baseline: Baseline) -> list[str]:
    gpus = sorted(baseline.links)
    rows = []
    for number, gpu in enumerate(gpus):
        cells = []
        for other in gpus[:number]:
            cells.append(baseline.paths.get((other, gpu), SYS))
        cells.append(SELF)
        rows.append(" ".join(cells))
    return rows


def decode(text: str | None) -> Baseline | None:
    """The baseline in an annotation; None when there is none, or when it is not ours."""
    document = _document_in(text)
    if document is None or not _is_ours(document):
        return None
    uuids = document.uuids or {}
    return Baseline(
        product=document.product,
        links=document.gpus,
        paths=_paths_in(document),
        is_in_fabric=document.fabric or False,
        uuids={gpu: uuid for gpu, uuid in uuids.items() if _UUID.fullmatch(uuid)},
        products=document.products or {},
        accepted=None if document.accepted is None else frozenset(document.accepted),
    )


def _document_in(text: str | None) -> "_Document | None":
    if not text or len(text) > _LIMIT_CHARACTERS:
        return None
    try:
        content = parse(text)
        document: _Document = typed([content.get(name) for name in _Document._fields], _Document)
    except (ValueError, AttributeError, RecursionError):  # the second: not an object
        return None
    return document


def _paths_in(document: "_Document") -> dict[tuple[str, str], str]:
    gpus = sorted(document.gpus)
    paths = {}
    for i, row in enumerate(document.rows()):
        for j in range(i):
            paths[gpus[j], gpus[i]] = row[j]
    return paths


def _is_ours(document: "_Document") -> bool:
    """Whether the fields fit together: a triangle of paths, and keys such as an agent writes."""
    if document.version != VERSION:
        return False
    if not _is_triangle(document.rows(), len(document.gpus)):
        return False
    accepted = document.accepted or []
    return len(accepted) <= _MOST_ACCEPTED_FAULTS and all(_KEY.fullmatch(key) for key in accepted)


def _is_triangle(rows: Sequence[Sequence[str]], size: int) -> bool:
    lengths = [len(row) for row in rows]
    return lengths == list(range(1, size + 1))


class _Document(NamedTuple):
    """The annotation's fields; None for a field that is missing there."""

    version: int
    product: str | None
    gpus: dict[str, int]
    paths: list[str]
    fabric: bool | None
    uuids: dict[str, str] | None
    products: dict[str, str] | None
    accepted: list[str] | None

    def rows(self) -> list[list[str]]:
        """The cells of each row of paths."""
        return [row.split() for row in self.paths]
