"""AppWrapper of workload.codeflare.dev: it holds all objects of one workload."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin, WrappingKind

PLUGIN: Final = Plugin(
    package=__package__,
    name="appwrapper",
    title="AppWrapper",
    wrapping=(
        WrappingKind(
            group="workload.codeflare.dev",
            kind="AppWrapper",
            items=("spec", "components"),
            object="template",
        ),
    ),
)
