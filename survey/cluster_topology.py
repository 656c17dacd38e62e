"""A ClusterTopology as it stands in a file or an answer of the API server."""

from typing import Any

from controller.spec import Topology
from controller.spec import read as read_topology


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have refused."""
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        why = "a ClusterTopology needs metadata.name, a text; kubectl apply --dry-run=server tells the rest"
        raise ValueError(why)  # noqa: TRY004 - what is wrong is the document, not a caller
    return read_topology(document)
