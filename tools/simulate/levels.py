"""What takes a level's label from Nodes, what asks for it meanwhile, when the judge may miss it."""

from dataclasses import dataclass
from math import inf
from typing import Any, Final

from tools.apiserver.client import MERGE
from tools.chaos.cluster import LOST, NODES, TOPOLOGIES, machine_node, other_nodes, passing_node
from toposcope.api.label_keys import NVLINK_DOMAIN
from toposcope.simulator import manifests

_SETS: Final = "/apis/grove.io/v1alpha1/namespaces/toposcope-system/podcliquesets"
_SET: Final[dict[str, Any]] = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "bound"},
    "spec": {
        "template": {"topologyConstraint": {"topologyName": "cluster", "packDomain": "block"}}
    },
}
_GRACE_SECONDS: Final = 30.0


@dataclass
class Loss:
    """What happened to the label of a level in one round."""

    since: float = inf
    """When first no Node carried it."""
    is_partial: bool = False
    """Whether any Node lacked it."""
    is_recreated: bool = False
    """Whether a ClusterTopology was deleted.

    A new one knows of no level that nodes had before, and will not have again.
    """


class Levels:
    """What a world's faults do, by the names in faults.yaml, and whether a level may be missing."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.passing = passing_node()
        """The Node that comes and goes."""
        self._carriers: dict[str, bool] = {}
        """The Nodes, and whether each carries the label."""
        self._losses = [Loss(), Loss()]
        """The losses of the round before, and of this one."""

    def begin_round(self) -> None:
        """What happened in the round before the last is no evidence any more."""
        self._losses = [self._losses[1], Loss()]

    def seen(self, storage: str, document: dict[str, Any], *, is_gone: bool) -> None:
        """Take down what is evidence."""
        loss = self._losses[1]
        if is_gone and storage == "clustertopologies.gpu.topology":
            loss.is_recreated = True
        if storage != "nodes":
            return

        metadata = document["metadata"]
        name = metadata["name"]
        if is_gone:
            self._carriers.pop(name, None)
        else:
            self._carriers[name] = LOST in metadata["labels"]

        carry = set(self._carriers.values())
        if False in carry:
            loss.is_partial = True
        if carry == {False}:
            now = self._world.monotonic()
            loss.since = min(loss.since, now)
            self._world.published_writes.is_deletion_expected = True

    def may_lack(self, name: str) -> set[str]:
        """Which levels that ClusterTopology may lack now."""
        losses = self._losses
        has_recreated = any(loss.is_recreated for loss in losses)
        has_partial = any(loss.is_partial for loss in losses)
        if has_recreated and has_partial:
            return {LOST, NVLINK_DOMAIN}
        if name != "cluster":
            return set()

        first = min(loss.since for loss in losses)
        now = self._world.monotonic()
        if now > first + _GRACE_SECONDS:
            return {LOST}
        return set()

    def _nodes(self) -> list[dict[str, Any]]:
        return [*other_nodes(), *map(machine_node, self._world.machines), passing_node()]

    def _relabel(self, *, is_carried: bool) -> None:
        labels: dict[str, Any] = {}
        for node in self._nodes():
            metadata = node["metadata"]
            name = metadata["name"]
            labels = metadata["labels"]
            if not is_carried:
                labels[LOST] = None
            lost = {LOST: labels[LOST]}
            self._world.api.request(
                "PATCH",
                f"{NODES}/{name}",
                {"metadata": {"labels": lost}},
                content_type=MERGE,
            )

        passing_labels = {}
        for key, text in labels.items():
            if text:
                passing_labels[key] = text
        self.passing["metadata"]["labels"] = passing_labels

    def lose(self) -> None:
        """Take the label from every Node, also from those that will come."""
        self._relabel(is_carried=False)

    def regain(self) -> None:
        """Put it back."""
        self._relabel(is_carried=True)

    def regain_later(self) -> None:
        """Put it back in a while."""
        scheduler = self._world.scheduler
        seconds = scheduler.rng.uniform(0.0, 3 * _GRACE_SECONDS)
        scheduler.call(seconds, self.regain)

    def require(self) -> None:
        """Have a workload require the level through Grove's binding."""
        self._world.add_crd(manifests.crd("grove/podcliqueset"))
        self._world.api.create(_SETS, _SET)

    def release(self) -> None:
        """Take that workload away, with its kind."""
        self._world.api.remove_crd("podcliquesets.grove.io")

    def retain(self, policy: str = "Retain") -> None:
        """Have the administrator keep levels that are gone."""
        change = {"spec": {"removalPolicy": policy}}
        self._world.api.request("PATCH", f"{TOPOLOGIES}/cluster", change, content_type=MERGE)

    def let_go(self) -> None:
        """Have levels go again."""
        self.retain("Remove")

    def vanish(self) -> None:
        """Delete every Node."""
        for node in self._nodes():
            name = node["metadata"]["name"]
            self._world.api.request("DELETE", f"{NODES}/{name}")

    def come_back(self) -> None:
        """Make them again, without the label."""
        for node in self._nodes()[:-1]:
            if node["metadata"]["name"] not in self._carriers:
                del node["metadata"]["labels"][LOST]
                self._world.add_node(node)
