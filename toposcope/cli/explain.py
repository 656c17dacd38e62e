"""Explain why a workload in the cluster waits: ask, one by one, the questions that people ask by hand.

Of a DynamoGraphDeployment (dgd), PodCliqueSet (pcs), PodClique, PodGang, PodGroup, Kueue Workload (wl), Job, JobSet,
LeaderWorkerSet (lws), Deployment, StatefulSet or Pod; a pod, like everything else, leads to its owner.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from toposcope.cli.documents import show_document
from toposcope.cli.explain_document import document_of
from toposcope.cli.failing import CommandError
from toposcope.cli.looking import UNWELL, WELL, add_source_arguments, answer, connected, look
from toposcope.cli.progress import Progress
from toposcope.cli.terminal import Screen, columns, complain
from toposcope.explain.context import Context, build_context
from toposcope.explain.diagnosis import Diagnosis, diagnose
from toposcope.explain.kinds import POD, SUBJECTS, Kind, kind_called
from toposcope.explain.live import UNLISTED, load_objects
from toposcope.explain.object_store import FileCollector, ObjectStore
from toposcope.explain.observed_placement import ObservedPlacement
from toposcope.explain.ownership import ObjectNotFoundError, ownership_of, subject_of
from toposcope.explain.step import Outcome, Step
from toposcope.snapshot.model import Snapshot

_OUTPUTS: Final = ("text", "wide", "json", "yaml", "name")
_MARKS: Final = {Outcome.PASSED: ("ok", "green"), Outcome.FAILED: ("FAILED", "red"), Outcome.UNKNOWN: ("?", "yellow")}
_WIDTH: Final = 14


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of `toposcope explain`."""
    parser.add_argument("subject", metavar="KIND/NAME", help="what to explain, as kubectl names it: pcs/llm, pod/llm-0")
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help="default: that of the context; with --from the only one where there is such an object",
    )
    add_source_arguments(parser, _OUTPUTS)


def run(_parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Explain; 1 when something keeps it from running as it was meant."""
    return answer("explain", arguments, lambda screen: _answer(screen, arguments))


def _answer(screen: Screen, arguments: argparse.Namespace) -> int:
    kind, name = _named(arguments.subject)
    snapshot, store = _gathered(arguments, name if kind is POD else None)
    try:
        subject = subject_of(store, snapshot, kind, name, arguments.namespace)
    except ObjectNotFoundError as error:
        raise CommandError(str(error)) from error
    found = diagnose(build_context(snapshot, store, ownership_of(store, snapshot, subject)))
    if arguments.output in ("json", "yaml"):
        show_document(screen, arguments.output, document_of(found))
    elif arguments.output == "name":
        screen.show([f"{found.context.demand.kind.lower()}/{found.context.demand.name}"])
    else:
        screen.show(_page(screen, found, wide=arguments.output == "wide"))
    return WELL if found.well else UNWELL


def _named(text: str) -> tuple[Kind, str]:
    word, slash, name = text.partition("/")
    if not (slash and word and name) or "/" in name:
        raise CommandError(f"{text!r} names no object; write KIND/NAME, as in podcliqueset/llm")
    kind = kind_called(word)
    if kind is None:
        known = ", ".join(sorted(each.kind.lower() for each in (POD, *SUBJECTS)))
        raise CommandError(f"{word!r} is no kind that can be explained; there are: {known}")
    return kind, name


def _gathered(arguments: argparse.Namespace, pod: str | None) -> tuple[Snapshot, ObjectStore]:
    """The cluster, and the objects around the one that is asked about."""
    if arguments.files:
        collector = FileCollector(pod)
        snapshot = look(arguments, published=True, others=collector)
        return snapshot, collector.store()
    snapshot = look(arguments, published=True)
    with connected(arguments) as client, Progress(sys.stderr) as progress:
        store = load_objects(client, arguments.namespace, pod, progress)
    if store.unseen:
        kinds = ", ".join(why.removesuffix(UNLISTED) for why in store.unseen.values())
        ask = f"ask an admin for the verb list on them in namespace {store.namespace}: docs/cli.md, section Rights"
        complain(f"warning: {kinds}{UNLISTED}; {ask}")
    return snapshot, store


def _page(screen: Screen, found: Diagnosis, *, wide: bool) -> Iterator[str]:
    context = found.context
    yield screen.paint(_title(context), "bold")
    yield from _owners(context)
    yield ""
    yield from _verdict(screen, found)
    yield ""
    yield screen.paint("Asked, in this order:", "head")
    for step in found.steps:
        word, style = _MARKS[step.outcome]
        answers = step is found.answer
        text = "see above" if answers else step.message
        yield f"  {screen.paint(word.ljust(6), style)}  {step.name.ljust(_WIDTH)}{text}"
        if not answers:
            yield from (f"{' ' * (10 + _WIDTH)}{line}" for line in step.details)
    if found.placements:
        yield ""
        yield screen.paint("Where its pods run:", "head")
        yield from (f"  {_sitting(placement)}" for placement in found.placements)
    if wide and context.ownership.pods:
        yield ""
        yield screen.paint("Its pods:", "head")
        yield from columns(
            screen, ("POD", "NODE"), [(pod.name, pod.node or "(waits)") for pod in context.ownership.pods]
        )
    if found.messages:
        yield ""
        yield screen.paint("What was said:", "head")
        for message in found.messages:
            yield f"  {message.about}: {message.text}"
            if message.meaning:
                yield f"    that is: {message.meaning}"


def _title(context: Context) -> str:
    systems = " and ".join(dict.fromkeys(workload.system for workload in context.workloads))
    topologies = ", ".join(context.topologies)
    about = ", ".join(filter(None, (systems, f"topology {topologies}" if topologies else "")))
    return context.demand.handle + (f" ({about})" if about else "") + f": {_count(context)}"


def _count(context: Context) -> str:
    if context.finished:
        return "has run to its end"
    if context.snapshot.pods is None:
        return "its pods cannot be seen"
    count = len(context.ownership.pods)
    if not count:
        return f"no pods yet, it asks for {context.expected}" if context.expected else "no pods"
    pods = "1 pod" if count == 1 else f"{count} pods"
    of = f" of {context.expected}" if context.expected > count else ""
    return f"{pods}{of}, {len(context.placed)} with a node, {len(context.waiting)} waiting"


def _owners(context: Context) -> Iterator[str]:
    """How the subject leads to what is explained."""
    if len(context.ownership.chain) > 1:
        yield f"  {' belongs to '.join(f'{ref.kind.lower()}/{ref.name}' for ref in context.ownership.chain)}"
    if context.ownership.beyond:
        ref = context.ownership.beyond
        yield f"  its owner {ref.kind.lower()}/{ref.name} is not looked at: it cannot be seen, or is of no known kind"


def _verdict(screen: Screen, found: Diagnosis) -> Iterator[str]:
    step = found.answer
    if step:
        yield screen.paint(f"Why: {step.message}", "red")
        yield from (f"  {line}" for line in step.details)
        yield from _commands(step)
        return
    broken = [placement for placement in found.placements if placement.respected is False]
    if broken:
        yield screen.paint("Nothing keeps it from running, but its pods do not sit as it asks:", "yellow")
        yield from (f"  {_sitting(each)}" for each in broken)
        return
    context = found.context
    if context.waiting:
        yield screen.paint("Nothing was found that keeps it from running.", "yellow")
        pod = context.waiting[0]
        yield "  the scheduler may just not have come to it, or waits for something that is not about topology"
        yield from _next((f"kubectl describe pod/{pod.name} -n {pod.namespace}",))
    else:
        yield screen.paint("Nothing is wrong with it.", "green")
    for each in found.steps:
        if each.outcome is Outcome.UNKNOWN:
            yield f"  not known: {each.message}"
            yield from _commands(each)


def _commands(step: Step) -> Iterator[str]:
    return _next(step.commands)


def _next(commands: Sequence[str]) -> Iterator[str]:
    for number, command in enumerate(commands):
        yield f"  {'next:' if number == 0 else '     '} {command}"


def _sitting(each: ObservedPlacement) -> str:
    name = f"{each.group} {each.copy}".rstrip()
    how = "required" if each.required else "preferred"
    where = ", ".join(f"{domain} ({count} {'pod' if count == 1 else 'pods'})" for domain, count in each.domains)
    kept = {True: "kept", False: "NOT KEPT", None: "not known" if each.note else "not kept, as it may be"}[
        each.respected
    ]
    text = f"{name}: one {each.level.domain} {how}: {kept}"
    return "; ".join(filter(None, (f"{text}: {where}" if where else text, each.note)))
