"""Workloads that ask for no topology: whether there is room for their pods anywhere."""

from collections.abc import Mapping
from typing import Any

from toposcope.integrations.framework.constraints import Group, Workload
from toposcope.integrations.framework.document import Field, handle_of
from toposcope.integrations.framework.pods import Structure, structure_of
from toposcope.integrations.framework.system import ClusterFacts, Reading, merged


class Plain:
    """Reads every kind with pod templates that no other system has anything to say about."""

    name = "Kubernetes"

    def claims(self, document: Mapping[str, Any]) -> bool:
        """Whether the kind is known to have pods."""
        return structure_of(Field(document)) is not None

    def read(
        self, document: Mapping[str, Any], known: ClusterFacts, before: Mapping[str, Any] | None = None
    ) -> Reading:
        """The pods of the workload, with nothing that keeps them together; see System."""
        del known, before  # nothing is asked of any topology
        root = Field(document)
        structure = structure_of(root) or Structure(())
        name = (root / "metadata" / "name").text() or "pods"
        group = Group(name, structure.whole, copies=structure.copies)
        return Reading(Workload(self.name, handle_of(root), (group,)), merged(root.findings))
