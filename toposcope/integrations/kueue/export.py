"""Kueue's Topology, in each version of its API."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.export import (
    LEVELS_WITHOUT_NAMES,
    ExportOptions,
    LevelsFormat,
    Variant,
)
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.kueue import topology


def _variant(version: str) -> Variant:
    def write(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
        return topology.write(levels, version)

    return Variant(version, write, LEVELS_WITHOUT_NAMES)


_VARIANTS: Final = [_variant(version) for version in topology.VERSIONS]
FORMATS: Final = (LevelsFormat(name="kueue", variants=tuple(_VARIANTS), loses_own_names=True),)
