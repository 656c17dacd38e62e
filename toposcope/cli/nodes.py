"""List nodes with their hardware, their place and what is wrong with them."""

import argparse
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

from toposcope.api import label_keys
from toposcope.cli import command, errors
from toposcope.cli.output import IS_IT_RUNNING, show_document
from toposcope.cli.planning import pair
from toposcope.cli.terminal import Screen, columns
from toposcope.hardware.matrix_annotation import reasons
from toposcope.kube.gpu_shares import described
from toposcope.kube.pod_resources import is_gpu, is_gpu_part
from toposcope.snapshot import filters
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.scope import Scope, select_scope

_HARDWARE: Final = (("PRODUCT", label_keys.GPU_PRODUCT), ("INTERCONNECT", label_keys.INTERCONNECT))
_MORE: Final = (
    ("GB/S", label_keys.NVLINK_BANDWIDTH),
    ("NUMA", label_keys.GPUS_PER_NUMA),
    ("RAILS", label_keys.RAIL_ALIGNED),
    ("SHAPE", label_keys.SHAPE),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope nodes`."""
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="nodes, or a ClusterTopology; default: all nodes of the only one",
    )
    which = parser.add_argument_group("which nodes")
    which.add_argument(
        "-l", "--selector", default="", metavar="SELECTOR", help="by labels, as in kubectl"
    )
    about = "those in a domain, such as rack=rack-7; repeated: in all of them"
    which.add_argument(
        "--in",
        dest="domains",
        action="append",
        default=[],
        metavar="LEVEL=VALUE",
        type=pair,
        help=about,
    )
    about = f"those in a state; repeated: in any of them. One of {', '.join(filters.CONDITIONS)}"
    which.add_argument(
        "--state",
        dest="states",
        action="append",
        default=[],
        choices=filters.CONDITIONS,
        metavar="STATE",
        help=about,
    )
    parser.add_argument(
        "--no-pods", action="store_true", help="do not read pods: faster, but free GPUs are unknown"
    )
    command.add_source_arguments(parser)
    command.add_watch(parser)


@command.on_screen("nodes")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Print the nodes; 1 when one of them is unhealthy or lacks a level."""
    selector = filters.parse(arguments.selector)
    snapshot = command.load_snapshot(arguments, pods=not arguments.no_pods)
    topology, names = _named(snapshot, arguments.names)
    scope = select_scope(snapshot, topology)
    if not snapshot.nodes:
        raise command.no_nodes(snapshot, scope)
    chosen = (
        [snapshot.by_name[name] for name in names]
        if names
        else [*scope.nodes, *scope.without_agent]
    )
    nodes = filters.filter_nodes(scope, chosen, selector, arguments.domains, arguments.states)
    if arguments.output in ("json", "yaml"):
        show_document(
            screen, arguments.output, {"nodes": [document(snapshot, scope, node) for node in nodes]}
        )
    elif arguments.output == "name":
        screen.show(f"node/{node.name}" for node in nodes)
    elif not nodes:
        none = f"no matching nodes ({len(chosen):,} checked)"
        screen.show([none, *filters.unknown_domains(scope, arguments.domains)])
    else:
        screen.show(_table(screen, snapshot, scope, nodes, wide=arguments.output == "wide"))
    unwell = any(
        node.without_agent
        or filters.lacking(scope, node)
        or not filters.FAULTS.isdisjoint(filters.marks(node))
        for node in nodes
    )
    return errors.EXIT_PROBLEMS if unwell else errors.EXIT_OK


def _named(snapshot: Snapshot, names: Sequence[str]) -> tuple[str | None, list[str]]:
    """The ClusterTopology among the names, which comes first, and the nodes.

    Raises CommandError.
    """
    topologies = {topology.name for topology in snapshot.topologies}
    first = names[0] if names and names[0] in topologies else None
    nodes = [name.removeprefix("node/") for name in names[1 if first else 0 :]]
    for name in nodes:
        if name not in snapshot.by_name:
            near = get_close_matches(name, [*snapshot.by_name, *topologies], 1)
            mean = f" (did you mean {near[0]!r}?)" if near else ""
            raise errors.CommandError(
                f"there is no node {name!r}{mean}; all nodes: toposcope nodes"
            )
    return first, list(dict.fromkeys(nodes))


def document(snapshot: Snapshot, scope: Scope, node: NodeView) -> dict[str, Any]:
    """What `-o json` and `-o yaml` print of one node; docs/cli.md describes it."""
    free = snapshot.free(node)
    counted = {
        name: count for name, count in node.allocatable.items() if is_gpu(name) or is_gpu_part(name)
    }
    return {
        "name": node.name,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "states": list(filters.states(scope, node)),
        "gpus": node.gpus,
        "freeGpus": snapshot.free_gpus(node),
        **({"shares": shares} if (shares := _shares(snapshot, node)) else {}),
        "resources": {
            name: {"allocatable": count, "free": None if free is None else free[name]}
            for name, count in counted.items()
        },
        "domains": {
            level.domain: filters.value_at(scope, node, level.key) for level in scope.levels
        },
        "hardware": {
            key.removeprefix(label_keys.PREFIX): value
            for key, value in node.labels.items()
            if key.startswith(label_keys.PREFIX)
        },
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.taints
        ],
        "reasons": list(reasons(node.matrix)),
        "computeDomains": [
            domain.name for domain in snapshot.compute_domains if node.name in domain.cliques
        ],
        "miscabled": filters.wrong_cables(scope, node),
    }


def _shares(snapshot: Snapshot, node: NodeView) -> list[dict[str, Any]]:
    """What the node offers in shares of its GPUs."""
    return [
        {
            "resource": shares.resource,
            "unit": shares.unit.value,
            **({"profile": shares.profile} if shares.profile else {}),
            "total": shares.total,
            "free": snapshot.free_shares(node, shares),
        }
        for shares in snapshot.shares.get(node.name, ())
    ]


def _table(
    screen: Screen, snapshot: Snapshot, scope: Scope, nodes: tuple[NodeView, ...], *, wide: bool
) -> Iterator[str]:
    hardware = _HARDWARE + (_MORE if wide else ())
    # The host's name is the first column.
    levels = [level for level in scope.levels if wide or level.key != label_keys.HOSTNAME]
    header = [
        "NAME",
        "GPUS",
        "FREE",
        "STATE",
        *(title for title, _ in hardware),
        *(level.domain.upper() for level in levels),
        *(["TAINTS"] if wide else ()),
    ]
    rows = []
    for node in nodes:
        free = snapshot.free_gpus(node)
        missing = () if filters.awaited(scope, node) else filters.lacking(scope, node)
        state = [*filters.marks(node), *(f"no {level}" for level in missing)]
        row = [
            node.name,
            str(node.gpus),
            "-" if free is None else str(free),
            ",".join(state) or "ok",
        ]
        row += [node.label(key) or "-" for _, key in hardware]
        row += [filters.value_at(scope, node, level.key) or "-" for level in levels]
        row += [",".join(map(str, node.taints)) or "-"] if wide else ()
        rows.append(row)
    # A narrow screen goes without interconnect and product first, then without the broad levels.
    spare = () if wide else (5, 4, *range(6, len(header) - 1))
    yield from columns(screen, header, rows, right=(1, 2), spare=spare)
    for node in nodes:
        remarks = [*reasons(node.matrix), *filters.wrong_cables(scope, node)]
        for shares in snapshot.shares.get(node.name, ()):
            about = described(node.gpus, shares, snapshot.free_shares(node, shares))
            yield screen.paint(f"{node.name}: {about}", "dim")
        if node.without_agent:
            remarks.append(f"no label {label_keys.GPUS}; {IS_IT_RUNNING}")
        elif scope.topology and not scope.topology.selects(node):
            remarks.append(f"ClusterTopology {scope.name} does not select it")
        for remark in remarks:
            yield screen.paint(f"! {node.name}: {remark}", "yellow")
