"""Run:ai: workloads of its projects, which its own scheduler places."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="runai",
    title="Run:ai",
    scheduler_names=("runai-scheduler",),
    pod_metadata=("scheduling.run.ai/", "runai/", "run.ai/"),
)
