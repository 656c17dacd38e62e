"""The audit of this node's ResourceSlices.

Opt-in, because no RBAC confines the right to read them to one node.
"""

import logging
from typing import Final

from toposcope.agent.annotation import annotation_for
from toposcope.agent.describe import Description
from toposcope.api.label_keys import MATRIX
from toposcope.api.label_values import label_safe
from toposcope.hardware.topology import NodeTopology
from toposcope.integrations.dra.api import SLICE, kept
from toposcope.integrations.dra.audit import DriverDisagreement, SeenGpu, compare
from toposcope.integrations.dra.devices import NodeDevices, inventory
from toposcope.kube.client import ApiClient, Request
from toposcope.kube.errors import ApiError, KubeError
from toposcope.kube.runtime import REAL, Runtime
from toposcope.text import parse

log = logging.getLogger("agent")

AGREEING_SECONDS: Final = 3600.0
"""The time between two reads: 3 a second for 10,000 agents.

The API server keeps an index of slices by node.
"""
DIFFERING_SECONDS: Final = 300.0
"""The same while something differs: a driver takes a while to publish what NVML shows at once."""
_JITTER: Final = (1.0, 1.2)


def seen_gpus(topology: NodeTopology) -> list[SeenGpu]:
    """The GPUs as NVML and sysfs show them."""
    return [
        SeenGpu(
            f"GPU {g.index}",
            g.uuid or "",
            g.address or "",
            g.root or "",
            g.numa,
            label_safe(g.product or "") or "",
        )
        for g in topology.gpus
    ]


class SliceAudit:
    """Compares the driver's slices of one node with its hardware.

    A disagreement counts once two reads show it.
    """

    def __init__(
        self,
        client: ApiClient,
        node_name: str,
        runtime: Runtime = REAL,
    ) -> None:
        self._client = client
        self._query = {"fieldSelector": f"spec.nodeName={node_name}"}
        self._name = node_name
        self._runtime = runtime
        self._rng = runtime.rng()
        self._due = runtime.monotonic()
        self._topology: NodeTopology | None = None
        self._disagreements: tuple[DriverDisagreement, ...] = ()
        self._steady: tuple[DriverDisagreement, ...] = ()

    def join(self, description: Description) -> Description:
        """The description with a reason for each disagreement.

        The state of the node stays unchanged.
        """
        topology = description.topology
        if topology is None:
            return description
        if self._runtime.monotonic() >= self._due or topology is not self._topology:
            self._read(topology)
        if not self._steady:
            return description
        sentences = [different.sentence for different in self._steady]
        audited = topology._replace(reasons=(*topology.reasons, *sentences))
        annotations = {**description.annotations, MATRIX: annotation_for(audited)}
        return description._replace(topology=audited, annotations=annotations)

    def _read(self, topology: NodeTopology) -> None:
        self._topology = topology
        try:
            disagreements = compare(seen_gpus(topology), self._devices())
        except (KubeError, ValueError) as error:
            log.warning("cannot audit the ResourceSlices of node %s: %s", self._name, error)
        else:
            before = self._disagreements
            self._steady = tuple([different for different in disagreements if different in before])
            self._disagreements = disagreements
        pause = DIFFERING_SECONDS if self._disagreements else AGREEING_SECONDS
        pause *= self._rng.uniform(*_JITTER)
        self._due = self._runtime.monotonic() + pause

    def _devices(self) -> NodeDevices:
        """The devices in the newest version that is served.

        Raises KubeError, and ValueError for a broken answer.
        """
        for version in SLICE.versions:
            api_version = f"{SLICE.group}/{version}"
            path = f"/apis/{api_version}/{SLICE.plural}"
            try:
                answer = parse(self._client.read(Request("GET", path, self._query)))
            except ApiError as error:
                if error.is_not_found:
                    continue
                raise
            named = {"apiVersion": api_version, "kind": SLICE.kind}
            slices = inventory(kept({**item, **named}) for item in answer["items"])
            return slices.nodes.get(self._name, NodeDevices())
        return NodeDevices()
