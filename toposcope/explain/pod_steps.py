"""The first checks: what holds the waiting pods themselves, before any topology counts.

Scheduling gates, suspension, what operators report as failed, and what the scheduler says. What the
pods are pinned to is in `pins.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from toposcope.explain.context import Context
from toposcope.explain.meanings import explained_by, meaning
from toposcope.integrations.framework import features
from toposcope.integrations.framework.document import Field
from toposcope.integrations.framework.features import (
    DESCRIBE,
    CheckStep,
    Object,
    Ref,
    SchedulerMessage,
    failed,
    passed,
    unknown,
)
from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.registry import waiting
from toposcope.placement.waiting_pod import Refusal, WaitingPod
from toposcope.snapshot.model import PodView
from toposcope.text import Command, bounded, listing, shell

_MOST_MESSAGES: Final = 8
_MOST_REFUSALS: Final = 4
_MOST_NAMES: Final = 3
_FAILURES: Final = {
    ("ReplicaFailure", "True"),
    ("FailureTarget", "True"),
    ("Failed", "True"),
    ("Stalled", "True"),
}
"""Type and status of conditions by which the controllers of pods say that they cannot make them."""
_STATES: Final = ("state", "jobDeploymentStatus")
"""Fields in which DynamoGraphDeployments, RayClusters and RayJobs have a state in a word."""
_FAILED_STATES: Final = frozenset({"failed", "validationfailed"})


def pod_messages(context: Context) -> Iterator[SchedulerMessage]:
    """The reasons why its pods wait, the most frequent one first."""
    pods_by_text: dict[str, list[PodView]] = {}
    for pod in context.waiting:
        if not pod.waiting:
            continue
        pods = pods_by_text.setdefault(pod.waiting, [])
        pods.append(pod)

    most_pods_first = sorted(pods_by_text.values(), key=len, reverse=True)
    for pods in most_pods_first[:_MOST_MESSAGES]:
        first = pods[0]
        scheduler = first.scheduler or "the scheduler"
        ref = Ref("", "Pod", first.namespace, first.name)
        yield SchedulerMessage(f"{scheduler} on {_named(pods)}", first.waiting, ref=ref)


def _named(pods: Sequence[PodView]) -> str:
    """`pod/llm-0 and 3 more`."""
    first, *others = pods
    name = f"pod/{first.name}"
    if others:
        name += f" and {len(others)} more"
    return name


def _lines_of(message: SchedulerMessage) -> Iterator[str]:
    """A message with its meaning, a line each."""
    yield f"{message.about}: {message.text}"
    translated = message.meaning or meaning(message.text)
    if translated:
        yield f"meaning: {translated}"


def _commands(messages: Sequence[SchedulerMessage]) -> Iterator[Command]:
    for message in messages:
        yield from message.commands


# Scheduling gates


def check_gates(context: Context) -> CheckStep:
    """No waiting pod has a scheduling gate, which keeps every scheduler from looking at it."""
    if context.snapshot.pods is None:
        return unknown("pods are not visible, so what holds them is unknown")
    if not context.waiting:
        return passed("no pod waits")

    gated = _gated(context)
    if gated is None:
        return unknown(
            "the waiting pods' scheduling gates are not known: the files have no such Pods",
            commands=(shell("kubectl get pods -n {} -o json", context.namespace),),
        )
    if not gated:
        return passed("no waiting pod has a scheduling gate")

    gate = next(iter(gated))
    return _gated_step(context, gate, gated[gate])


def _gated(context: Context) -> Mapping[str, list[PodView]] | None:
    """The waiting pods by the gates that they have; None: not known of any."""
    gated: dict[str, list[PodView]] = {}
    is_known = False
    for pod in context.waiting:
        document = context.pod_document(pod)
        if document is None:
            continue
        is_known = True
        for gate in _gates(document):
            gated.setdefault(gate, []).append(pod)
    return gated if is_known else None


def _gates(document: Object) -> Iterator[str]:
    for gate in (Field(document) / "spec" / "schedulingGates").items():
        name = (gate / "name").text()
        if name:
            yield name


def _gated_step(context: Context, gate: str, pods: Sequence[PodView]) -> CheckStep:
    """The step where pods have a gate."""
    first = pods[0]
    describe = shell("kubectl describe pod/{} -n {}", first.name, first.namespace)
    text = f"scheduling gate {gate} holds {_named(pods)}, so no scheduler looks at it"
    if len(pods) > 1:
        text = f"scheduling gate {gate} holds {_named(pods)}, so no scheduler looks at them"

    system = _owner_of(gate)
    if system is None:
        return failed(
            text,
            "the webhook or controller that added the gate has to remove it from "
            "spec.schedulingGates: look for one of that name",
            commands=(describe, shell("kubectl get mutatingwebhookconfigurations")),
        )
    reports = [*system.problems(context), *system.refusals(context)]
    lines: list[str] = []
    for report in reports[:_MOST_MESSAGES]:
        lines += _lines_of(report)
    commands = list(_commands(reports))
    owner = context.explained.command(DESCRIBE)
    return failed(text, system.gates[gate], *lines, commands=(*commands, owner, describe))


def _owner_of(gate: str) -> Waiting | None:
    for system in waiting():
        if gate in system.gates:
            return system
    return None


# Suspension


def check_suspended(context: Context) -> CheckStep:
    """Neither it nor an owner is suspended, which leaves it without pods."""
    if context.has_finished:
        return passed("it has finished")

    for ref in reversed(context.ownership.chain):
        document = context.store.objects.get(ref)
        field = features.suspending_field(document) if document else None
        if field:
            return _suspended_step(context, ref, field)
    return passed("nothing suspends it")


def _suspended_step(context: Context, ref: Ref, field: Field) -> CheckStep:
    what = f"{ref.handle} is suspended ({field.path}: true)"
    for system in waiting():
        words = system.resumes(context)
        if words:
            return passed(f"{what}: {words}")
    return failed(
        f"{what}, so it has no pods until that is set to false",
        "no known queue manages it, so nothing will resume it",
        commands=(ref.command(f"kubectl patch {{}} --type merge -p '{_resumed(field)}'"),),
    )


def _resumed(field: Field) -> str:
    """The merge patch that resumes the object."""
    patch = "false"
    for name in reversed(field.path.split(".")):
        patch = f'{{"{name}": {patch}}}'
    return patch


# What operators report


def check_owner(context: Context) -> CheckStep:
    """No controller of its pods reports a failure."""
    if context.has_finished or context.is_fully_placed:
        return passed("its pods are there")

    problems = [*_problems(context), *_failures(context)]
    if not problems:
        return passed("no controller of its pods reports a failure")

    first, *others = problems
    lines: list[str] = []
    for problem in others[:_MOST_MESSAGES]:
        lines += _lines_of(problem)
    first_lines = list(_lines_of(first))
    return failed(*first_lines, *lines, commands=tuple(_commands(problems)))


def _problems(context: Context) -> Iterator[SchedulerMessage]:
    for system in waiting():
        yield from system.problems(context)


def _failures(context: Context) -> Iterator[SchedulerMessage]:
    """The conditions by which controllers say that they cannot make pods."""
    for ref, document in context.all_members:
        for condition in features.conditions(document):
            outcome = condition.type, condition.status
            if condition.message and outcome in _FAILURES:
                yield SchedulerMessage(ref.handle, str(condition), ref=ref)
        state = _failed_state(document)
        if state:
            yield SchedulerMessage(ref.handle, state, ref=ref)


def _failed_state(document: Object) -> str:
    """The state by which some controllers say that an object failed; empty: it did not."""
    status = Field(document) / "status"
    for name in _STATES:
        state = (status / name).text() or ""
        if state.lower() in _FAILED_STATES:
            why = (status / "message").text() or (status / "reason").text() or "no message"
            return f"status.{name} is {state}: {bounded(why)}"
    return ""


# What schedulers say


def refusals(context: Context) -> tuple[SchedulerMessage, ...]:
    """Why schedulers and queues hold it back, in their words; of the whole workload first."""
    if context.has_finished or context.is_fully_placed:
        return ()
    messages: list[SchedulerMessage] = []
    for system in waiting():
        messages += system.refusals(context)
    messages += pod_messages(context)
    return tuple(dict.fromkeys(messages))


def check_scheduler(context: Context) -> CheckStep:
    """No scheduler or queue says that it refuses the workload or a pod."""
    refused = refusals(context)
    if not refused:
        return passed("no scheduler says that it cannot place it")

    first = refused[0]
    translated = first.meaning or meaning(first.text)
    step = failed(
        f"{first.about}: {first.text}",
        translated,
        *_in_the_way(context, first),
        commands=first.commands,
    )
    return features.explained(step, explained_by(first.text))


def _in_the_way(context: Context, refused: SchedulerMessage) -> Iterator[str]:
    """The running pods that keep a refused pod from nodes by affinity, anti-affinity or ports."""
    for pod in context.waiting:
        if refused.ref != Ref("", "Pod", pod.namespace, pod.name):
            continue
        nodes_by_refusal: dict[Refusal, list[str]] = {}
        for node, refusal in WaitingPod(context.snapshot, pod).refusals().items():
            nodes = nodes_by_refusal.setdefault(refusal, [])
            nodes.append(node)
        for refusal, nodes in list(nodes_by_refusal.items())[:_MOST_REFUSALS]:
            words = f"{listing(nodes, _MOST_NAMES)}: node(s) {refusal.says}"
            if refusal.pods:
                words += f", because of {listing(refusal.pods, _MOST_NAMES)}"
            yield words
