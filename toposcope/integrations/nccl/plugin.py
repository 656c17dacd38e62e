"""NCCL: the topology file of one node."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="nccl",
    title="NCCL",
)
