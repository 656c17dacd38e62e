"""A right that is missing: what people read, and what could be read all the same."""

from typing import TYPE_CHECKING

from kube.errors import ApiError, KubeError

if TYPE_CHECKING:
    from controller.spec import Topology


class NotAllowed(KubeError):
    """The nodes may not be listed; `topologies` is what could be read before that."""

    def __init__(self, message: str, topologies: "tuple[Topology, ...]") -> None:
        super().__init__(message)
        self.topologies = topologies


def refusal(resource: str, without: str, error: ApiError, where: str = "") -> str:
    """The sentence for a list that is refused: which right is missing, what that costs, what to ask an admin for."""
    return (
        f"{resource} may not be listed with these credentials, so {without}; ask an admin for a ClusterRole with "
        f"the verb list on {resource}{where} (the API server: {error.message})"
    )
