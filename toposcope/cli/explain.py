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
from toposcope.cli.kept import kept_commands, kept_document
from toposcope.cli.output import show_document
from toposcope.cli.progress import ProgressLine
from toposcope.cli.terminal import Screen, UnfoldedLine, columns, complain
from toposcope.explain import object_store
from toposcope.explain.context import Context
from toposcope.explain.diagnosis import Diagnosis
from toposcope.explain.machine import examine
from toposcope.explain.observed_placement import ObservedPlacement
from toposcope.explain.ownership import ObjectNotFoundError, subject_of
from toposcope.integrations.framework.features import (
    DESCRIBE,
    CheckOutcome,
    CheckStep,
    Ref,
    SchedulerMessage,
)
from toposcope.integrations.framework.pod_creation import DEFAULT_SCHEDULER
from toposcope.kube.discovery import Kind
from toposcope.planning.kept import BrokenBy
from toposcope.planning.kept_words import kept_advice, kept_details
from toposcope.snapshot.model import Snapshot
from toposcope.text import Command, plural, shell

_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")
_MARKS: Final = {
    CheckOutcome.PASSED: ("ok", "green"),
    CheckOutcome.FAILED: ("FAILED", "red"),
    CheckOutcome.UNKNOWN: ("?", "yellow"),
}
_NAME_CHARACTERS: Final = 14


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
    """Explain the workload or node; 1 when something keeps it from running as intended."""
    subject = arguments.subject
    if arguments.name:
        subject = f"{subject}/{arguments.name}"
    word, _, name = subject.partition("/")
    if word.lower() in command.NODE and name:
        return _explain_node(screen, arguments, name)

    kinds, name = _named(subject)
    snapshot, store = _gathered(arguments, name if object_store.POD in kinds else None)
    kind = _kind_of(store, kinds, name)
    try:
        ref = subject_of(store, snapshot, kind, name, arguments.namespace)
    except ObjectNotFoundError as error:
        raise errors.CommandError(str(error)) from error

    context = Context(snapshot, store, ref)
    diagnosis = Diagnosis(context)
    output = arguments.output
    if output in ("json", "yaml"):
        show_document(screen, output, document_of(diagnosis))
    elif output == "name":
        screen.show([_handle(context.explained)])
    else:
        is_wide = output == "wide"
        screen.show(_page(screen, diagnosis, is_wide=is_wide))

    return errors.exit_code(is_ok=diagnosis.has_no_problems)


def _kind_of(store: object_store.ObjectStore, kinds: Sequence[Kind], name: str) -> Kind:
    """The first of the kinds that has such an object; else the first."""
    for kind in kinds:
        for ref, _ in store.of_kind(kind):
            if ref.name == name:
                return kind
    return kinds[0]


def _explain_node(screen: Screen, arguments: argparse.Namespace, name: str) -> int:
    snapshot = command.load_snapshot(arguments, node=name, has_neighbours=True)
    node = snapshot.by_name.get(name)
    if node is None:
        raise command.no_node(snapshot, name)

    steps = examine(snapshot, node)
    answer = None
    for step in steps:
        if step.outcome is CheckOutcome.FAILED:
            answer = step
            break

    if arguments.output in ("json", "yaml"):
        documents = [_step_document(step) for step in steps]
        fields = {"node": name, "well": answer is None, "steps": documents}
        show_document(screen, arguments.output, fields)
    elif arguments.output == "name":
        screen.show([f"node/{name}"])
    else:
        screen.show(_node_page(screen, name, steps, answer))

    return errors.exit_code(is_ok=answer is None)


def _node_page(
    screen: Screen, name: str, steps: Sequence[CheckStep], answer: CheckStep | None
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
        names = {kind.kind.lower() for kind in (object_store.POD, *object_store.SUBJECTS)}
        raise errors.CommandError(
            f"cannot explain the kind {word!r}; choose one of: {', '.join(sorted(names))}"
        )
    return kinds, name


def _gathered(
    arguments: argparse.Namespace, pod: str | None
) -> tuple[Snapshot, object_store.ObjectStore]:
    """The cluster, and the objects around the subject."""
    if arguments.files:
        collector = object_store.FileCollector(pod)
        snapshot = command.load_snapshot(arguments, has_published=True, others=collector)
        return snapshot, collector.store()

    snapshot = command.load_snapshot(arguments, has_published=True)
    with command.api_client(arguments) as client, ProgressLine(sys.stderr) as progress:
        store = object_store.load_objects(client, arguments.namespace, pod, progress)

    if store.unread:
        kinds = ", ".join(unread.kind.name for unread in store.unread.values())
        complain(
            f"warning: {kinds} may not be listed with these credentials; "
            "ask an admin for the verb list on them "
            f"in namespace {store.namespace}: docs/check.md, section Rights"
        )
    return snapshot, store


def _page(screen: Screen, diagnosis: Diagnosis, *, is_wide: bool) -> Iterator[str]:
    context = diagnosis.context
    yield screen.paint(_title(context), "bold")
    yield from _owners(context)
    yield ""
    yield from _verdict(screen, diagnosis)
    yield from _checked(screen, diagnosis.steps, diagnosis.answer)
    if diagnosis.placements:
        yield ""
        yield screen.paint("Where its pods run:", "head")
        for placement in diagnosis.placements:
            yield f"  {_placement(placement)}"

    domains = list(_compute_domains(context))
    if domains:
        yield ""
        yield from domains

    if is_wide and context.ownership.pods:
        yield ""
        yield screen.paint("Its pods:", "head")
        rows = []
        for pod in context.ownership.pods:
            rows.append((pod.name, pod.node or "(waits)"))
        yield from columns(screen, ("POD", "NODE"), rows)

    yield from _messages(screen, diagnosis.messages_besides_answer)


def _messages(screen: Screen, messages: Sequence[SchedulerMessage]) -> Iterator[str]:
    if not messages:
        return
    yield ""
    yield screen.paint("Messages:", "head")
    for message in messages:
        yield f"  {message.about}: {message.text}"
        if message.meaning:
            yield f"    meaning: {message.meaning}"


def _checked(screen: Screen, steps: Sequence[CheckStep], answer: CheckStep | None) -> Iterator[str]:
    yield ""
    yield screen.paint("Checked, in this order:", "head")
    for step in steps:
        word, style = _MARKS[step.outcome]
        mark = screen.paint(word.ljust(6), style)
        name = step.name.ljust(_NAME_CHARACTERS)
        if step is answer:
            yield f"  {mark}  {name}see above"
            continue
        yield f"  {mark}  {name}{step.message}"
        for line in step.details:
            yield " " * (10 + _NAME_CHARACTERS) + line


def _why(screen: Screen, step: CheckStep) -> Iterator[str]:
    yield screen.paint(f"Why: {step.message}", "red")
    for line in step.details:
        yield f"  {line}"
    yield from _next(step.commands)


def _compute_domains(context: Context) -> Iterator[str]:
    """The ComputeDomains that the nodes of its pods are in."""
    nodes = {pod.node for pod in context.placed}
    for domain in context.snapshot.compute_domains:
        count = len(nodes & domain.cliques.keys())
        if count:
            yield f"{domain.sentence}; {count} of its {len(nodes)} nodes are in it"


def _title(context: Context) -> str:
    about = []
    systems = " and ".join(_systems(context))
    if systems:
        about.append(systems)
    topologies = ", ".join(context.topologies)
    if topologies:
        about.append(f"topology {topologies}")

    title = context.explained.handle
    if about:
        title += f" ({', '.join(about)})"
    return f"{title}: {_count(context)}"


def _systems(context: Context) -> list[str]:
    """The systems that handle it, each once."""
    return list(dict.fromkeys(workload.system for workload in context.workloads))


def _count(context: Context) -> str:
    if context.has_finished:
        return "has finished"
    if context.snapshot.pods is None:
        return "its pods are not visible"

    count = len(context.ownership.pods)
    expected = context.expected
    if not count:
        return f"no pods yet, it asks for {expected}" if expected else "no pods"

    pods = f"{count} {plural(count, 'pod')}"
    if expected > count:
        pods += f" of {expected}"
    placed = len(context.placed)
    waiting = len(context.waiting)
    return f"{pods}, {placed} with a node, {waiting} waiting"


def _owners(context: Context) -> Iterator[str]:
    """How the subject's owners lead to what is explained."""
    chain = [_handle(ref) for ref in context.ownership.chain]
    if len(chain) > 1:
        yield f"  {' belongs to '.join(chain)}"

    unread = context.ownership.unread_owner
    if unread:
        yield (
            f"  its owner {_handle(unread)} is not checked: "
            "it cannot be read, or its kind is unknown"
        )


def _handle(ref: Ref) -> str:
    return f"{ref.kind.lower()}/{ref.name}"


def _verdict(screen: Screen, diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.answer:
        yield from _why(screen, diagnosis.answer)
        return

    broken = list(_broken(diagnosis))
    if broken:
        yield screen.paint("Nothing blocks it, but its pods are not placed as it asks:", "yellow")
        yield from broken
        return

    context = diagnosis.context
    if context.waiting:
        yield from _untried(screen, context)
    elif context.missing:
        yield from _missing(screen, context)
    else:
        yield screen.paint("Nothing is wrong with it.", "green")

    for step in diagnosis.steps:
        if step.outcome is CheckOutcome.UNKNOWN:
            yield f"  unknown: {step.message}"
            yield from _next(step.commands)


def _untried(screen: Screen, context: Context) -> Iterator[str]:
    """Pods wait, and no message says why."""
    pod = context.waiting[0]
    scheduler = pod.scheduler or DEFAULT_SCHEDULER
    yield screen.paint("Nothing was found that blocks it.", "yellow")
    yield (
        f"  {scheduler} has not said why pod/{pod.name} waits: "
        "it may not have tried it yet, or may not run"
    )
    yield from _next((shell("kubectl describe pod/{} -n {}", pod.name, pod.namespace),))


def _missing(screen: Screen, context: Context) -> Iterator[str]:
    """Pods are missing, and no message says why."""
    count = context.missing
    are = plural(count, "is", "are")
    yield screen.paint(
        f"Nothing was found that blocks it, but {count} of its {context.expected} pods {are} "
        "not there yet.",
        "yellow",
    )
    yield "  neither its controller nor its queue has said why: see the events"
    yield from _next((context.explained.command(DESCRIBE),))


def _broken(diagnosis: Diagnosis) -> Iterator[str]:
    """The placements that are not as the workload asks, who broke them, and what to do.

    Several placements often break for one reason: it is said once.
    """
    explained: set[BrokenBy] = set()
    commands: dict[Command, None] = {}
    for placement in diagnosis.placements:
        if placement.is_kept is not False:
            continue
        yield f"  {_placement(placement)}"
        observed = placement.observed
        if observed is None or observed.broken_by is None or observed.broken_by in explained:
            continue
        explained.add(observed.broken_by)
        for sentence in kept_advice(observed):
            yield f"    {sentence}"
        if placement.is_labelled:
            shown = kept_commands(observed, placement.level.key)
            commands.update(dict.fromkeys(shown))
    yield from _next(tuple(commands))


def _next(commands: Sequence[Command]) -> Iterator[str]:
    for number, line in enumerate(commands):
        head = "next:" if number == 0 else "     "
        yield UnfoldedLine(f"  {head} {line}")


def _placement(placement: ObservedPlacement) -> str:
    name = f"{placement.group} {placement.copy}".rstrip()
    how = "required" if placement.is_required else "preferred"
    text = f"{name}: one {placement.level.domain} {how}: {_kept(placement)}"
    domains = []
    for domain, count in placement.domains:
        pods = plural(count, "pod")
        domains.append(f"{domain} ({count} {pods})")

    if domains:
        text += f": {', '.join(domains)}"
    if placement.note:
        text += f"; {placement.note}"
    if placement.observed:
        for detail in kept_details(placement.observed):
            text += f"; {detail}"
    return text


def _kept(placement: ObservedPlacement) -> str:
    if placement.result:
        return placement.result.value
    if placement.is_kept:
        return "kept"
    return "unknown" if placement.note else "not kept, only preferred"


def document_of(diagnosis: Diagnosis) -> dict[str, Any]:
    """The diagnosis as one document."""
    context = diagnosis.context
    answer = diagnosis.answer
    return {
        "subject": _ref(context.ownership.subject),
        "explained": _ref(context.explained),
        "owners": [_ref(ref) for ref in context.ownership.chain[1:]],
        "systems": _systems(context),
        "topologies": list(context.topologies),
        "well": diagnosis.has_no_problems,
        "finished": context.has_finished,
        "pods": _pods_document(context),
        "answer": _step_document(answer) if answer else None,
        "steps": [_step_document(step) for step in diagnosis.steps],
        "computeDomains": list(_compute_domains(context)),
        "placements": [_placement_document(placement) for placement in diagnosis.placements],
        "messages": [_message_document(message) for message in diagnosis.messages],
    }


def _pods_document(context: Context) -> dict[str, Any] | None:
    if context.snapshot.pods is None:
        return None
    return {
        "expected": context.expected or None,
        "placed": len(context.placed),
        "waiting": len(context.waiting),
    }


def _message_document(message: SchedulerMessage) -> dict[str, Any]:
    return {
        "about": message.about,
        "text": message.text,
        "meaning": message.meaning or None,
    }


def _ref(ref: Ref) -> dict[str, str]:
    return {"group": ref.group, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def _step_document(step: CheckStep) -> dict[str, Any]:
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
        "required": placement.is_required,
        "domains": dict(placement.domains),
        "kept": placement.is_kept,
        "note": placement.note or None,
        "result": placement.result.value if placement.result else None,
        "observed": kept_document(placement.observed) if placement.observed else None,
    }
