"""All checks in their order, the answer (the first one that failed), and what schedulers reported."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toposcope.explain import topology_steps
from toposcope.explain.context import Context
from toposcope.explain.node_steps import check_availability, check_labels, check_room
from toposcope.explain.observed_placement import ObservedPlacement, observed_placements
from toposcope.integrations.dynamo import features as dynamo
from toposcope.integrations.framework import features
from toposcope.integrations.framework.document import Field
from toposcope.integrations.grove import features as grove
from toposcope.integrations.grove.api import BINDINGS, OLDER_TOPOLOGIES
from toposcope.integrations.kai import features as kai
from toposcope.integrations.kai.api import TOPOLOGIES
from toposcope.integrations.kai.messages import meaning_of_no_room
from toposcope.integrations.kubernetes import features as gangs
from toposcope.integrations.kubernetes.messages import meaning_of_no_node
from toposcope.integrations.kueue import features as kueue
from toposcope.integrations.kueue.api import WORKLOAD
from toposcope.integrations.volcano import features as volcano
from toposcope.snapshot.model import Published
from toposcope.snapshot.scope import Scope
from toposcope.text import Command, shell

_QUOTING: Final = (dynamo, grove, kai, kueue, gangs, volcano)
_MAX_MESSAGES: Final = 8


def meaning(text: str) -> str:
    """What a message means, whoever sent it; empty where none is known."""
    return features.meaning_of(text) or meaning_of_no_node(text) or meaning_of_no_room(text)


def scheduler_messages(context: Context) -> Iterator[features.SchedulerMessage]:
    """Conditions of the objects that schedulers created for it, then messages about its pods; equal ones once."""
    messages = [message for system in _QUOTING for message in system.messages(context)]
    texts = Counter(pod.waiting for pod in context.waiting if pod.waiting)
    for text, count in texts.most_common(_MAX_MESSAGES):
        first = next(pod for pod in context.waiting if pod.waiting == text)
        pods = f"pod/{first.name}" + (f" and {count - 1} more" if count > 1 else "")
        messages.append(
            features.SchedulerMessage(f"{first.scheduler or 'the scheduler'} on {pods}", text)
        )
    for message in dict.fromkeys(messages):
        yield message if message.meaning else replace(message, meaning=meaning(message.text))


_FEATURES: Final = (
    dynamo.check,
    grove.check,
    grove.check_kai,
    kueue.check,
    gangs.check,
    volcano.check,
)


def check_drift(context: Context) -> features.Step:
    """The scheduler reads the levels that the ClusterTopology has, and Grove reports no drift of its own."""
    agreeing, open_questions = [], []
    for workload in context.workloads:
        kinds = context.topology_kinds(workload)
        if workload.topology is None or not kinds:
            continue
        resource = context.resource(workload)
        if resource is None:
            missing = f"there is no {kinds[0].kind} {workload.topology}"
            open_questions.append(context.store.why_unknown(*kinds) or missing)
            continue
        scope = context.scope(workload)
        resources = list(_resources(context, resource))
        for published in resources if scope else ():
            if scope and not _agrees(published, scope):
                return _drifted(published, scope)
        step = grove.check_drift(
            resource, _command("kubectl describe {} {}", resource)
        ) or _differing(resources)
        if step:
            return step
        if scope:
            agreeing.append(f"{resource.handle} has the levels of the ClusterTopology")
        else:
            open_questions.append(
                f"there is no ClusterTopology {workload.topology} to compare {resource.handle} with"
            )
    open_questions += filter(None, [topology_steps.blocked_by_topology(context)])
    if open_questions:
        return features.unknown(open_questions[0])
    return features.passed("; ".join(dict.fromkeys(agreeing)) or "it asks for no topology")


def _resources(context: Context, resource: Published) -> Iterator[Published]:
    """The resource that the system reads; for Grove also the KAI Topology that its pods are scheduled by."""
    yield resource
    if (resource.api_version.rpartition("/")[0], resource.kind) == BINDINGS.key:
        kai_topology = context.published(
            grove.named_kai_topology(resource.document) or resource.name, TOPOLOGIES
        )
        if kai_topology:
            yield kai_topology


def _keys(resource: Published) -> list[str]:
    return [level.key for level in resource.levels]


def _agrees(resource: Published, scope: Scope) -> bool:
    """Whether it has the levels of the ClusterTopology; one that is gone from all nodes may be in it or not."""
    table = scope.table()
    has = _keys(resource)
    return has == [
        level.key for level in scope.levels if level.key in has or table.column(level.key).distinct
    ]


def _drifted(resource: Published, scope: Scope) -> features.Step:
    entries = Field(scope.topology.status if scope.topology else None) / "published"
    reported = [
        f"ClusterTopology {scope.name} reports on it: {message}"
        for entry in entries.items()
        if (entry / "apiVersion").text() == resource.api_version
        and (entry / "kind").text() == resource.kind
        and (message := (entry / "message").text())
    ]
    return features.failed(
        f"{resource.handle} differs from ClusterTopology {scope.name}",
        f"it has {_order(_keys(resource))}",
        f"the ClusterTopology has {_order([level.key for level in scope.levels])}",
        *reported[:1],
        commands=(
            shell("kubectl describe gtopo {}", scope.name),
            _command("kubectl get {} {} -o yaml", resource),
        ),
    )


def _differing(resources: Sequence[Published]) -> features.Step | None:
    """A binding and the KAI Topology created from it that differ, where Grove does not report it."""
    if len(resources) == 1 or _keys(resources[0]) == _keys(resources[1]):
        return None
    binding, kai_topology = resources
    return features.failed(
        f"{kai_topology.handle}, by which its pods are scheduled, differs from {binding.handle}",
        f"it has {_order(_keys(kai_topology))}",
        f"the binding has {_order(_keys(binding))}",
        commands=(
            _command("kubectl get {} {} -o yaml", kai_topology),
            _command("kubectl describe {} {}", binding),
        ),
    )


def _order(keys: Sequence[str]) -> str:
    return " > ".join(keys) or "no levels"


def _command(template: str, resource: Published) -> Command:
    """A command about `topologies.kai.scheduler cluster`: not the topologies of another API group."""
    group = resource.api_version.rpartition("/")[0]
    known = {kind.kind: kind.plural for kind in (BINDINGS, OLDER_TOPOLOGIES)}
    return shell(template, f"{known.get(resource.kind, 'topologies')}.{group}", resource.name)


def check_features(context: Context) -> features.Step:
    """Everything in Dynamo, Grove, KAI and Kueue that keeps the pods together is enabled: the first that is not."""
    for finding in context.findings(*topology_steps.FEATURE_RULES, severity="warning"):
        managed_anyway = finding.rule == "kueue/queue-name" and any(context.members(WORKLOAD))
        if not managed_anyway:
            return features.failed(topology_steps.objection(finding), finding.fix)
    steps = [step for check in _FEATURES for step in check(context)]
    for outcome in (features.Outcome.FAILED, features.Outcome.UNKNOWN):
        for step in steps:
            if step.outcome is outcome:
                return step
    return features.passed(
        "; ".join(step.message for step in steps) or "nothing has to be enabled for it"
    )


CHECKS: Final[dict[str, Callable[[Context], features.Step]]] = {
    "topology": topology_steps.check_topology,
    "levels": topology_steps.check_levels,
    "hierarchy": topology_steps.check_hierarchy,
    "rules": topology_steps.check_rules,
    "labels": check_labels,
    "availability": check_availability,
    "room": check_room,
    "drift": check_drift,
    "features": check_features,
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that was found."""

    context: Context
    steps: tuple[features.Step, ...]
    placements: tuple[ObservedPlacement, ...]
    """Where its pods run, for each group that is to be kept together."""
    messages: tuple[features.SchedulerMessage, ...]
    """What schedulers and operators reported."""

    @property
    def answer(self) -> features.Step | None:
        """The first check that failed; None where none did."""
        return next((step for step in self.steps if step.outcome is features.Outcome.FAILED), None)

    @property
    def well(self) -> bool:
        """Whether nothing failed, and what runs is placed as it asks."""
        return self.answer is None and all(
            placement.kept is not False for placement in self.placements
        )


def diagnose(context: Context) -> Diagnosis:
    """Run all checks. Never raises."""
    steps = tuple(replace(check(context), name=name) for name, check in CHECKS.items())
    return Diagnosis(
        context, steps, tuple(observed_placements(context)), tuple(scheduler_messages(context))
    )
