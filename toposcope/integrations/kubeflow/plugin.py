"""Kubeflow: the fields of its jobs. Their pods are read by `framework/pods.py`."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin
from toposcope.kube.discovery import Kind

_TRAINER: Final = "trainer.kubeflow.org"
CLUSTER_RUNTIMES: Final = Kind(
    _TRAINER,
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    ("v1alpha1",),
    is_namespaced=False,
)
TRAIN_JOBS: Final = Kind(_TRAINER, "TrainJob", "trainjobs", ("v1alpha1",))
RUNTIMES: Final = Kind(_TRAINER, "TrainingRuntime", "trainingruntimes", ("v1alpha1",))

PLUGIN: Final = Plugin(
    package=__package__,
    name="kubeflow",
    title="Kubeflow",
    decisive=(CLUSTER_RUNTIMES, RUNTIMES),
)
