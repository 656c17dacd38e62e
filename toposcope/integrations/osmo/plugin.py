"""OSMO: workflows, and the pools that they run in."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="osmo",
    title="OSMO",
    pod_metadata=("osmo.",),
)
