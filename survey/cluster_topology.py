"""A ClusterTopology as it stands in a file or an answer of the API server."""

from typing import Any

from controller.spec import Topology
from controller.spec import read as read_topology


def topology_of(document: Any) -> Topology:
    """One ClusterTopology. Raises ValueError for an object that the CRD would have refused."""
    try:
        found = read_topology(document)
        hash(found.name)  # whatever else the server refuses, topologies are told apart by their names
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"no ClusterTopology that the API server would take ({type(error).__name__}: {error}); "
            "kubectl apply --dry-run=server tells what is wrong"
        ) from error
    return found
