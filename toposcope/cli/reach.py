"""Which free GPUs a pod of typical shape cannot get, and what keeps it from them, in words."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from toposcope.api.label_keys import ALLOCATABLE_GPUS
from toposcope.cli.errors import CommandError
from toposcope.cli.output import counted
from toposcope.cli.terminal import Screen
from toposcope.integrations.framework.constraints import Pods, pods_in
from toposcope.integrations.framework.node_affinity import Toleration
from toposcope.kube.pod_resources import gpu_count
from toposcope.snapshot.documents import documents
from toposcope.snapshot.model import NodeView, Snapshot
from toposcope.snapshot.problems import InputError, Problem
from toposcope.snapshot.reach import (
    CPU,
    MEMORY,
    TAKES_NO_PODS,
    Basis,
    BlockedGpus,
    PodShape,
    Reach,
    typical_shape,
)

if TYPE_CHECKING:
    from toposcope.planning.repelling import Repelling

_BASES: Final = {
    Basis.MEDIAN: "the median of the pods with GPUs",
    Basis.LIKE: "--like",
    Basis.SHARE: "half of what a node has for each GPU, as no pod has GPUs",
}
_EFFECTS: Final = ("NoSchedule", "NoExecute")


def add_like(parser: argparse.ArgumentParser) -> None:
    """Declare `--like`."""
    parser.add_argument(
        "--like",
        nargs="+",
        metavar="FILE",
        default=(),
        help="workloads as for `check -f`: count the free GPUs that a pod like their largest can "
        "get; default: a pod like the median one with GPUs",
    )


def add_tolerate(parser: argparse.ArgumentParser) -> None:
    """Declare `--tolerate`."""
    parser.add_argument(
        "--tolerate",
        action="append",
        type=_toleration,
        default=[],
        metavar="KEY[=VALUE][:EFFECT]",
        help="a taint that pods tolerate, beside those that most pods with GPUs tolerate; "
        "can be repeated",
    )


def _toleration(text: str) -> Toleration:
    """`team=vision:NoSchedule` in a flag; without a value or an effect for every one."""
    taint, has_effect, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    if not key or (has_effect and effect not in _EFFECTS):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not KEY[=VALUE][:EFFECT], such as team=vision:NoSchedule; "
            f"the effect is {' or '.join(_EFFECTS)}"
        )
    operator = "Equal" if has_value else "Exists"
    return Toleration(key, operator, value, effect)


def repelling_document(repelling: "Iterable[Repelling]") -> list[dict[str, Any]]:
    """The field `tainted` of a document: what is not counted because of taints."""
    entries = []
    for each in repelling:
        taint = each.taint
        entry = {
            "taint": {"key": taint.key, "value": taint.value, "effect": taint.effect},
            "gpus": each.gpus,
            "nodes": each.nodes,
        }
        entries.append(entry)
    return entries


def shape_for(arguments: argparse.Namespace, snapshot: Snapshot) -> PodShape:
    """The shape of the pods by which free GPUs are judged. Raises CommandError and InputError."""
    if not arguments.like:
        return typical_shape(snapshot, arguments.tolerate)
    pods = list(_pods_of(arguments, snapshot))
    if not pods:
        raise CommandError(f"--like {' '.join(arguments.like)}: no pods with GPUs in these files")
    largest = max(pods, key=_gpus)
    requests = dict(largest.requests)
    like = PodShape(
        gpus=_gpus(largest),
        cpu=requests.get(CPU, 0),
        memory=requests.get(MEMORY, 0),
        basis=Basis.LIKE,
        node_filter=largest.node_filter,
    )
    return like.tolerating(arguments.tolerate)


def _gpus(pods: Pods) -> int:
    return gpu_count(dict(pods.requests))


def _pods_of(arguments: argparse.Namespace, snapshot: Snapshot) -> Iterator[Pods]:
    """The pods with GPUs of the workloads in the files of `--like`."""
    # Reading workloads takes as long as all the rest, and few ask for it.
    from toposcope.integrations.readings import readings  # noqa: PLC0415
    from toposcope.placement.check import Checker  # noqa: PLC0415

    problems: list[Problem] = []
    values = []
    for document in documents(arguments.like, problems.append, limit=arguments.from_limit):
        try:
            values.append(document.read(dict))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)

    facts = Checker(snapshot, values).facts
    for value in values:
        for reading in readings(value, facts, None):
            groups = reading.workload.groups if reading.workload else ()
            for pods in pods_in(groups):
                if dict(pods.requests).get(ALLOCATABLE_GPUS):
                    yield pods


def reach_lines(
    screen: Screen,
    reach: Reach,
    nodes: Iterable[NodeView] | None = None,
    *,
    is_wide: bool = False,
) -> Iterator[str]:
    """A line on the shape, and one for each reason why idle GPUs are blocked; none if none are.

    Only about these nodes; default: all of the scope.
    """
    blocks = reach.blocks(nodes)
    if not blocks:
        return
    blocked = _gpus_of(block for block in blocks if block.why not in TAKES_NO_PODS)
    idle = _gpus_of(blocks) - blocked
    shape = reach.shape
    pod = f"a pod with {shape.words} ({_BASES[shape.basis]})"
    style = "dim"
    if blocked:
        style = "yellow"
        gpus = counted(blocked, "free GPU")
        yield screen.paint(f"! blocked: {gpus} out of reach of {pod}", style)
    else:
        text = f"idle, and not free: {counted(idle, 'GPU')} on nodes that take no pods"
        yield screen.paint(text, style)
    for block in blocks:
        yield screen.paint(f"  {block.sentence(is_wide=is_wide)}", style)


def _gpus_of(blocks: Sequence[BlockedGpus] | Iterator[BlockedGpus]) -> int:
    return sum(block.gpus for block in blocks)


def reach_document(reach: Reach, nodes: Iterable[NodeView] | None = None) -> dict[str, Any]:
    """The fields `pod` and `blocked` of a document; docs/check.md describes them.

    Only about these nodes; default: all of the scope.
    """
    blocked = []
    for block in reach.blocks(nodes):
        blocked.append(
            {
                "reason": block.why.value,
                "detail": block.detail or None,
                "gpus": block.gpus,
                "nodes": block.nodes,
                "holders": list(block.holders),
            }
        )
    shape = reach.shape
    pod = {
        "gpus": shape.gpus,
        "cpu": shape.cpu / 1000,
        "memory": shape.memory,
        "basis": shape.basis.value,
    }
    return {"pod": pod, "blocked": blocked}
