"""Slurm: its topology file."""

from typing import Final

from toposcope.integrations.framework.plugin import Plugin

PLUGIN: Final = Plugin(
    package=__package__,
    name="slurm",
    title="Slurm",
)
