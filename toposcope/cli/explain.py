"""Explain why a workload in the cluster waits: check, one by one, what you would check by hand.

For a node it checks agent, hardware, what the DRA driver reports, and its NVLink domain. Otherwise
it takes a DynamoGraphDeployment (dgd), PodCliqueSet (pcs), PodClique, PodGang, PodGroup, Kueue
Workload (wl), Job, Volcano's Job (vcjob), JobSet, LeaderWorkerSet (lws), Deployment, StatefulSet or
Pod; a pod, like everything else, leads to its owner.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from toposcope.cli import command, errors
from toposcope.cli.output import show_document
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen, Whole, columns, complain
from toposcope.explain import object_store
from toposcope.explain.context import Context
from toposcope.explain.diagnosis import Diagnosis
from toposcope.explain.machine import examine
from toposcope.explain.observed_placement import ObservedPlacement
from toposcope.explain.ownership import ObjectNotFoundError, subject_of
from toposcope.integrations.framework.features import Outcome, Ref, Step
from toposcope.kube.discovery import Kind
from toposcope.snapshot.model import Snapshot
from toposcope.text import Command, plural, shell

_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")
_MARKS: Final = {
    Outcome.PASSED: ("ok", "green"),
    Outcome.FAILED: ("FAILED", "red"),
    Outcome.UNKNOWN: ("?", "yellow"),
}
_WIDTH: Final = 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope explain`."""
    parser.add_argument(
        "subject",
        metavar="KIND/NAME",
        help="what to explain, as kubectl names it: pcs/llm, pod/llm-0, node/gpu-7",
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the name, if given separately: pod llm-0"
    )
    about = "default: that of the context; with --from the only one with such an object"
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help=about)
    command.add_source_arguments(parser, _OUTPUTS)
    command.add_watch(parser)
    parser.set_defaults(no_pods=False)


@command.on_screen("explain")
def run(screen: Screen, arguments: argparse.Namespace) -> int:
    """Explain; 1 when something keeps it from running as intended."""
    word, _, of_node = "/".join(filter(None, (arguments.subject, arguments.name))).partition("/")
    if word.lower() in command.NODE and of_node:
        return _explain_node(screen, arguments, of_node)
    kinds, name = _named("/".join(filter(None, (arguments.subject, arguments.name))))
    snapshot, store = _gathered(arguments, name if object_store.POD in kinds else None)
    kind = next(
        (kind for kind in kinds if any(ref.name == name for ref, _ in store.of_kind(kind))),
        kinds[0],
    )
    try:
        subject = subject_of(store, snapshot, kind, name, arguments.namespace)
    except ObjectNotFoundError as error:
        raise errors.CommandError(str(error)) from error
    found = Diagnosis(Context(snapshot, store, subject))
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document_of(found))
    elif arguments.output == "name":
        screen.show([f"{found.context.explained.kind.lower()}/{found.context.explained.name}"])
    else:
        screen.show(_page(screen, found, wide=arguments.output == "wide"))
    return errors.EXIT_OK if found.well else errors.EXIT_PROBLEMS


def _explain_node(screen: Screen, arguments: argparse.Namespace, name: str) -> int:
    snapshot = command.load_snapshot(arguments, node=name)
    node = snapshot.by_name.get(name)
    if node is None:
        raise errors.CommandError(
            f"there is no node {name!r} in {snapshot.source}; all nodes: toposcope nodes"
        )
    steps = examine(snapshot, node)
    answer = next((step for step in steps if step.outcome is Outcome.FAILED), None)
    if arguments.output in ("json", "yaml"):
        said = [_step_document(step) for step in steps]
        show_document(
            screen, arguments.output, {"node": name, "well": answer is None, "steps": said}
        )
    elif arguments.output == "name":
        screen.show([f"node/{name}"])
    else:
        screen.show(_node_page(screen, name, steps, answer))
    return errors.EXIT_PROBLEMS if answer else errors.EXIT_OK


def _node_page(
    screen: Screen, name: str, steps: Sequence[Step], answer: Step | None
) -> Iterator[str]:
    yield screen.paint(f"node/{name}", "bold")
    yield ""
    if answer:
        yield from _why(screen, answer)
    else:
        yield screen.paint("Nothing is wrong with it.", "green")
    yield from _checked(screen, steps, answer)


def _named(text: str) -> tuple[tuple[Kind, ...], str]:
    word, slash, name = text.partition("/")
    if not (slash and word and name) or "/" in name:
        raise errors.CommandError(
            f"{text!r} is not KIND/NAME or KIND NAME; write for example podcliqueset/llm"
        )
    kinds = object_store.kinds_called(word)
    if not kinds:
        known = ", ".join(
            sorted({known.kind.lower() for known in (object_store.POD, *object_store.SUBJECTS)})
        )
        raise errors.CommandError(f"cannot explain the kind {word!r}; choose one of: {known}")
    return kinds, name


def _gathered(
    arguments: argparse.Namespace, pod: str | None
) -> tuple[Snapshot, object_store.ObjectStore]:
    """The cluster, and the objects around the one that is asked about."""
    if arguments.files:
        collector = object_store.FileCollector(pod)
        snapshot = command.load_snapshot(arguments, published=True, others=collector)
        return snapshot, collector.store()
    snapshot = command.load_snapshot(arguments, published=True)
    with command.api_client(arguments) as client, Progress(sys.stderr) as progress:
        store = object_store.load_objects(client, arguments.namespace, pod, progress)
    if store.unread:
        kinds = ", ".join(unread.kind.name for unread in store.unread.values())
        ask = f"ask an admin for the verb list on them in namespace {store.namespace}: docs/cli.md, section Rights"
        complain(f"warning: {kinds} may not be listed with these credentials; {ask}")
    return snapshot, store


def _page(screen: Screen, found: Diagnosis, *, wide: bool) -> Iterator[str]:
    context = found.context
    yield screen.paint(_title(context), "bold")
    yield from _owners(context)
    yield ""
    yield from _verdict(screen, found)
    yield from _checked(screen, found.steps, found.answer)
    if found.placements:
        yield ""
        yield screen.paint("Where its pods run:", "head")
        yield from (f"  {_placement(placement)}" for placement in found.placements)
    if domains := _compute_domains(context):
        yield ""
        yield from domains
    if wide and context.ownership.pods:
        yield ""
        yield screen.paint("Its pods:", "head")
        yield from columns(
            screen,
            ("POD", "NODE"),
            [(pod.name, pod.node or "(waits)") for pod in context.ownership.pods],
        )
    if found.messages:
        yield ""
        yield screen.paint("Messages:", "head")
        for message in found.messages:
            yield f"  {message.about}: {message.text}"
            if message.meaning:
                yield f"    meaning: {message.meaning}"


def _checked(screen: Screen, steps: Sequence[Step], answer: Step | None) -> Iterator[str]:
    yield ""
    yield screen.paint("Checked, in this order:", "head")
    for step in steps:
        word, style = _MARKS[step.outcome]
        answers = step is answer
        text = "see above" if answers else step.message
        yield f"  {screen.paint(word.ljust(6), style)}  {step.name.ljust(_WIDTH)}{text}"
        if not answers:
            yield from (f"{' ' * (10 + _WIDTH)}{line}" for line in step.details)


def _why(screen: Screen, step: Step) -> Iterator[str]:
    yield screen.paint(f"Why: {step.message}", "red")
    yield from (f"  {line}" for line in step.details)
    yield from _next(step.commands)


def _compute_domains(context: Context) -> list[str]:
    """The ComputeDomains that the nodes of its pods are in."""
    nodes = {pod.node for pod in context.placed}
    within = [
        (domain, len(nodes & domain.cliques.keys())) for domain in context.snapshot.compute_domains
    ]
    return [
        f"{domain.sentence}; {count} of its {len(nodes)} nodes are in it"
        for domain, count in within
        if count
    ]


def _title(context: Context) -> str:
    systems = " and ".join(dict.fromkeys(workload.system for workload in context.workloads))
    topologies = ", ".join(context.topologies)
    about = ", ".join(filter(None, (systems, f"topology {topologies}" if topologies else "")))
    return context.explained.handle + (f" ({about})" if about else "") + f": {_count(context)}"


def _count(context: Context) -> str:
    if context.finished:
        return "has finished"
    if context.snapshot.pods is None:
        return "its pods are not visible"
    count = len(context.ownership.pods)
    if not count:
        return f"no pods yet, it asks for {context.expected}" if context.expected else "no pods"
    pods = f"{count} {plural(count, 'pod')}"
    of = f" of {context.expected}" if context.expected > count else ""
    return f"{pods}{of}, {len(context.placed)} with a node, {len(context.waiting)} waiting"


def _owners(context: Context) -> Iterator[str]:
    """How the subject leads to what is explained."""
    if len(context.ownership.chain) > 1:
        yield f"  {' belongs to '.join(f'{ref.kind.lower()}/{ref.name}' for ref in context.ownership.chain)}"
    if context.ownership.unread_owner:
        ref = context.ownership.unread_owner
        yield f"  its owner {ref.kind.lower()}/{ref.name} is not checked: it cannot be read, or its kind is unknown"


def _verdict(screen: Screen, found: Diagnosis) -> Iterator[str]:
    step = found.answer
    if step:
        yield from _why(screen, step)
        return
    broken = [placement for placement in found.placements if placement.kept is False]
    if broken:
        yield screen.paint("Nothing blocks it, but its pods are not placed as it asks:", "yellow")
        yield from (f"  {_placement(placement)}" for placement in broken)
        return
    context = found.context
    if context.waiting:
        yield screen.paint("Nothing was found that blocks it.", "yellow")
        pod = context.waiting[0]
        yield "  the scheduler may not have tried it yet, or waits for something unrelated to topology"
        yield from _next((shell("kubectl describe pod/{} -n {}", pod.name, pod.namespace),))
    else:
        yield screen.paint("Nothing is wrong with it.", "green")
    for check in found.steps:
        if check.outcome is Outcome.UNKNOWN:
            yield f"  unknown: {check.message}"
            yield from _next(check.commands)


def _next(commands: Sequence[Command]) -> Iterator[str]:
    for number, line in enumerate(commands):
        yield Whole(f"  {'next:' if number == 0 else '     '} {line}")


def _placement(placement: ObservedPlacement) -> str:
    name = f"{placement.group} {placement.copy}".rstrip()
    how = "required" if placement.required else "preferred"
    where = ", ".join(
        f"{domain} ({count} {plural(count, 'pod')})" for domain, count in placement.domains
    )
    not_kept = "unknown" if placement.note else "not kept, only preferred"
    kept = {True: "kept", False: "NOT KEPT", None: not_kept}[placement.kept]
    text = f"{name}: one {placement.level.domain} {how}: {kept}"
    return "; ".join(filter(None, (f"{text}: {where}" if where else text, placement.note)))


def document_of(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as one document."""
    context = found.context
    return {
        "subject": _ref(context.ownership.subject),
        "explained": _ref(context.explained),
        "owners": [_ref(ref) for ref in context.ownership.chain[1:]],
        "systems": list(dict.fromkeys(workload.system for workload in context.workloads)),
        "topologies": list(context.topologies),
        "well": found.well,
        "finished": context.finished,
        "pods": None
        if context.snapshot.pods is None
        else {
            "expected": context.expected or None,
            "placed": len(context.placed),
            "waiting": len(context.waiting),
        },
        "answer": found.answer and _step_document(found.answer),
        "steps": [_step_document(step) for step in found.steps],
        "computeDomains": _compute_domains(context),
        "placements": [_placement_document(placement) for placement in found.placements],
        "messages": [
            {"about": message.about, "text": message.text, "meaning": message.meaning or None}
            for message in found.messages
        ],
    }


def _ref(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _step_document(step: Step) -> dict[str, Any]:
    return {
        "step": step.name,
        "outcome": step.outcome.value,
        "message": step.message,
        "details": [line.strip() for line in step.details],
        "next": list(step.commands),
    }


def _placement_document(placement: ObservedPlacement) -> dict[str, Any]:
    return {
        "group": placement.group,
        "copy": placement.copy or None,
        "level": placement.level.domain,
        "key": placement.level.key,
        "required": placement.required,
        "domains": dict(placement.domains),
        "kept": placement.kept,
        "note": placement.note or None,
    }
