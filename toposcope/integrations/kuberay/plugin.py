"""KubeRay: clusters that no other system places. `framework/pods.py` reads their pods."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="kuberay",
    title="KubeRay",
)
