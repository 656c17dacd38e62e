"""How many pods start together by KAI's grouper.

Source: the pod grouper of KAI 0.17.0 (pkg/podgrouper).

A Job starts pod by pod unless an annotation on the Job itself says how many start together. The
grouper's default, for StatefulSets, ReplicaSets and every kind that it does not know, is one pod,
and no annotation changes it. On a JobSet the annotation counts replicated Jobs, on its Job
templates pods. Kubeflow's jobs, Ray and LeaderWorkerSets say it in fields.
"""

import re
from collections.abc import Sequence
from typing import Final

from toposcope.integrations.framework import constraints
from toposcope.integrations.framework.document import Field, kind_of
from toposcope.integrations.framework.pods import Structure
from toposcope.integrations.kai.api import BATCH_MIN_MEMBER, GROUP_OF, SKIP_GROUPER
from toposcope.kube.discovery import Kind

JOB: Final = ("batch", "Job")
TRAINING: Final = "kubeflow.org"
"""The API group of jobs that have roles."""
PYTORCH: Final = (TRAINING, "PyTorchJob")
TRAINING_KINDS: Final = (
    Kind(TRAINING, "PyTorchJob", "pytorchjobs", ("v1",)),
    Kind(TRAINING, "MPIJob", "mpijobs", ("v2beta1", "v1")),
)
"""Those that `explain` accepts by name."""
ONE_BY_ONE: Final = frozenset(
    {JOB, ("apps", "StatefulSet"), ("apps", "ReplicaSet"), (TRAINING, "PaddleJob")}
)
"""Kinds whose pods start one by one by default, as pods of one PodGroup."""
_RULE: Final = "kai/min-member"
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)


def keeps_its_group(root: Field, structure: Structure) -> bool:
    """Whether the grouper leaves its pods in the PodGroup that they name.

    It does so for pods without an owner.
    """
    own = root / "metadata" / "annotations"
    if kind_of(root.value) == ("", "Pod") and own / GROUP_OF:
        return True
    places = [own]
    for pod_set in structure.sets:
        places.append(pod_set.annotations)
    for annotations in places:
        skip = annotations / SKIP_GROUPER
        if skip.text() == "true":
            return True
    return False


def minimum_of(annotations: Field, most: int, unit: str = "pods") -> int:
    """What the annotation says, `most` at most.

    0 where there is none, or one that KAI makes no gang of.
    """
    annotation = annotations / BATCH_MIN_MEMBER
    text = annotation.text()
    if text is None:
        return 0
    if not _WHOLE_NUMBER.fullmatch(text):
        refusal = (
            f"{text!r} is not a whole number, so KAI creates no PodGroup and never schedules the "
            "pods"
        )
    elif int(text) < 1:
        refusal = f"{text} is below 1, so KAI creates no PodGroup and never schedules the pods"
    elif int(text) > most and unit == "pods":
        refusal = f"{text} is more than the {most} {unit} that run at once, so KAI waits forever"
    else:
        return min(int(text), most)
    annotation.error(_RULE, refusal, f"set a whole number from 1 to {most}, in quotes")
    return 0


def training_minimum(root: Field, kind: tuple[str, str], total: int) -> int:
    """How many of its `total` pods a Kubeflow job starts with."""
    spec = root / "spec"
    minimum = spec / "runPolicy" / "schedulingPolicy" / "minAvailable"
    if not minimum and kind == PYTORCH:
        minimum = spec / "elasticPolicy" / "minReplicas"
    number = minimum.number(total)
    if number > total:
        text = f"{minimum.value} is more than its {total} pods, so KAI waits forever"
        minimum.error(_RULE, text, f"set at most {total}")
    return min(number, total)


def check_startup_order(root: Field, names: Sequence[str], constraint: Field) -> None:
    """Check a JobSet that creates its kinds of Jobs one by one, in the order of `names`."""
    rule = "kai/startup-order"
    order = root / "spec" / "startupPolicy" / "startupPolicyOrder"
    if order.text() != "InOrder" or len(names) <= 1:
        return
    created, placed = names[0], min(names)
    if placed != created:
        text = (
            f"KAI 0.17 places {placed} first, by name, but the JobSet creates {created} first, so "
            "neither ever starts"
        )
        fix = f"rename them so that {created} is first by name, or use startupPolicyOrder: AnyOrder"
        order.error(rule, text, fix)
    elif constraint.text():
        text = (
            f"KAI 0.17 places {created} alone, and the others later wherever there is room, so "
            "this keeps no pods together"
        )
        constraint.warn(rule, text, "use startupPolicyOrder: AnyOrder")


def check_submission(root: Field, structure: Structure) -> None:
    """Note a RayJob that KubeRay does not hand to KAI.

    Source: KubeRay 1.6, which hands KAI the pods without a scheduler if its operator is configured
    for KAI.
    """
    for pod_set in structure.sets:
        scheduler = pod_set.template / "spec" / "schedulerName"
        if scheduler:
            return
    if structure.later:
        text = (
            "KAI-Scheduler does not support RayJob with K8sJobMode: the submitter pod is created "
            "after RayCluster is ready, preventing proper gang scheduling"
        )
        fix = "set submissionMode: HTTPMode or SidecarMode; K8sJobMode is the default"
        (root / "spec" / "submissionMode").error("kai/submission-mode", text, fix)


def starts_with(minimum: int, total: int) -> str:
    """The note on a gang that is smaller than its pods."""
    return constraints.starts_with("KAI", minimum, total)


def warn_of_no_gang(root: Field, kind: tuple[str, str], constraint: Field, pods: int) -> None:
    """Warn that the pods start one by one although they should stay together."""
    text = (
        f"KAI 0.17 does not treat a {kind[1]} as a gang: it starts the {pods} pods one by one, "
        "the first chooses the domain, and pods without room there wait"
    )
    if kind == JOB:
        fix = f'set {BATCH_MIN_MEMBER}: "{pods}" on the Job, and recreate it'
        constraint.warn(_RULE, text, fix)
        return

    minimum = root / "metadata" / "annotations" / BATCH_MIN_MEMBER
    if minimum:
        minimum.warn(_RULE, "KAI reads this on Jobs and JobSets only", "remove it")
    fix = (
        f"use a LeaderWorkerSet, JobSet or Job; or write a PodGroup with minMember: {pods}, "
        f"name it in the annotation {GROUP_OF} of the pod template, "
        f'and set {SKIP_GROUPER}: "true" on the {kind[1]}'
    )
    constraint.warn(_RULE, text, fix)
