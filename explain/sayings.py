"""What schedulers and operators said about the workload, with what it means."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from explain.case import Case
from explain.features.grove import CONDITION as GROVE_CONDITION
from explain.kinds import CLIQUE_SET, DEPLOYMENT_GRAPH, KUEUE_WORKLOAD, POD_GROUP
from explain.shelf import Object, Ref, condition, conditions
from explain.translation import meaning

_DYNAMO_CONDITION: Final = "TopologyLevelsAvailable"
_KUEUE_CONDITIONS: Final = ("QuotaReserved", "Admitted", "Evicted", "Preempted")
_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Saying:
    """One message, who it is about, and what it means in plain words (empty: it speaks for itself)."""

    about: str
    text: str
    meaning: str


def sayings(case: Case) -> Iterator[Saying]:
    """Conditions of what schedulers made of it, then what they said of its pods; equal words once."""
    found = list(_conditions(case))
    texts = Counter(pod.waiting for pod in case.waiting if pod.waiting)
    for text, count in texts.most_common(_MOST):
        first = next(pod for pod in case.waiting if pod.waiting == text)
        who = f"pod/{first.name}" + (f" and {count - 1} more" if count > 1 else "")
        about = f"{first.scheduler or 'the scheduler'} on {who}"
        found.append(Saying(about, text, meaning(text)))
    yield from dict.fromkeys(found)


def _conditions(case: Case) -> Iterator[Saying]:
    for ref, document in case.members(DEPLOYMENT_GRAPH):
        yield from _one(ref, document, _DYNAMO_CONDITION, good="True", meant=_dynamo_means(case))
    for ref, document in case.members(CLIQUE_SET):
        yield from _one(ref, document, GROVE_CONDITION, good="False")
    for ref, document in case.members(POD_GROUP):
        for each in (*conditions(document, "schedulingConditions"), *conditions(document)):
            if each.message and each.status != "False":
                yield Saying(ref.handle, each.message, meaning(each.message))
    for ref, document in case.members(KUEUE_WORKLOAD):
        for each in conditions(document):
            waits = each.type in _KUEUE_CONDITIONS[:2] and each.status == "False"
            lost = each.type in _KUEUE_CONDITIONS[2:] and each.status == "True"
            if each.message and (waits or lost):
                text = f"{each.type}={each.status} ({each.reason}): {each.message}"
                yield Saying(ref.handle, text, meaning(each.message))


def _one(ref: Ref, document: Object, kind: str, *, good: str, meant: str = "") -> Iterator[Saying]:
    """A condition where it is bad, or where it means something else than it says."""
    said = condition(document, kind)
    if said and (said.status != good or meant):
        text = f"{kind}={said.status} ({said.reason}): {said.message}"
        yield Saying(ref.handle, text, meant if said.status == good else meaning(said.message))


def _dynamo_means(case: Case) -> str:
    """Dynamo takes Grove's Unknown for good news: its condition says True while Grove does not find the topology."""
    for _, document in case.members(CLIQUE_SET):
        said = condition(document, GROVE_CONDITION)
        if said and said.status == "Unknown":
            return f"not to be relied on: Grove says Unknown ({said.reason}), which Dynamo takes for True"
    return ""
