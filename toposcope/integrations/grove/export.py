"""Grove's resource of levels, and the Helm values of its operator."""

from collections.abc import Mapping
from typing import Any, Final

from toposcope.integrations.framework.export import ExportOptions, LevelsFormat, Variant
from toposcope.integrations.framework.levels import TopologyLevels
from toposcope.integrations.grove import backend, topology


def _binding(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write(levels)


def _cluster_topology(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write_older(levels)


def _values(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write_values(levels)


def _older_values(levels: TopologyLevels, _options: ExportOptions) -> Mapping[str, Any]:
    return topology.write_older_values(levels)


FORMATS: Final = (
    LevelsFormat(
        name="grove",
        variants=(
            Variant("binding", _binding),
            Variant(
                "clustertopology",
                _cluster_topology,
                "Grove's operator overwrites this object from its Helm values: see helm-grove",
            ),
        ),
    ),
    LevelsFormat(
        name="helm-grove",
        variants=(
            Variant(
                "alpha.9",
                _values,
                "from v0.1.0-alpha.9 on the levels are in a ClusterTopologyBinding: "
                f"--format grove; cliques without schedulerName go to {backend.TITLE}, in the "
                f"queue named by the label {backend.QUEUE}",
            ),
            Variant(
                "alpha.4",
                _older_values,
                "alpha.4 to alpha.7 have no default scheduler: set schedulerName in each clique",
            ),
        ),
    ),
)
