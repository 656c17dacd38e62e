"""From objects to the workloads that people made: what a workload's own objects ask for, it asks for."""

from collections.abc import Iterable
from typing import Final

from controller.requirements.model import Need, Reading, WorkloadRef

_DEEPEST: Final = 8
"""Owners of owners; nothing real comes near it, and owners that own each other must end somewhere."""


def roll_up(readings: Iterable[Reading]) -> dict[WorkloadRef, tuple[Need, ...]]:
    """The needs of each workload that has not finished, under the topmost owner that is known.

    A Deployment, the PodCliqueSet made from it and a PodGroup made from that are one workload. An owner that is not
    followed itself (a RayJob, a CronJob) is still the object that somebody wrote, and gets the needs and the Events.
    """
    every = list(readings)
    by_uid = {reading.workload.uid: reading for reading in every}
    found: dict[WorkloadRef, dict[Need, None]] = {}
    for reading in every:
        top, finished = reading, reading.finished
        for _ in range(_DEEPEST):
            above = by_uid.get(top.owner.uid) if top.owner else None
            if above is None:
                break
            top, finished = above, finished or above.finished
        if reading.needs and not finished:
            found.setdefault(top.owner or top.workload, {}).update(dict.fromkeys(reading.needs))
    return {workload: tuple(needs) for workload, needs in found.items()}
