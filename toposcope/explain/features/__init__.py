"""What has to be on for a workload's topology to count: one file per system, each yields its findings as steps."""

from typing import Final

NAME: Final = "features"
