"""TrainJobs can be explained by name: the objects created from their runtime wait."""

from typing import Final

from toposcope.integrations.framework.waiting import Waiting
from toposcope.integrations.kubeflow.plugin import TRAIN_JOBS


class _TrainerWaiting(Waiting):
    subjects = (TRAIN_JOBS,)


WAITING: Final = _TrainerWaiting()
