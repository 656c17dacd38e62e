"""AppWrapper of workload.codeflare.dev, which wraps all objects of one workload."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="appwrapper",
    title="AppWrapper",
)
