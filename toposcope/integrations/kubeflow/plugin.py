"""Kubeflow: the fields of its jobs. Their pods are read by `framework/pods.py`."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="kubeflow",
    title="Kubeflow",
)
