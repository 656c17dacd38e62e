"""The agent's audit of its ResourceSlices: what differs in two reads is a reason, and the node's state stays."""

import json
from pathlib import Path
from typing import Any

from tests.support.machines import probed
from tests.support.runtime import ManualRuntime
from tests.support.slices import GPUS, gpus_of, slice_of
from toposcope.agent.describe import Description, describe
from toposcope.agent.slices import AGREEING_SECONDS, DIFFERING_SECONDS, SliceAudit
from toposcope.api.label_keys import MATRIX, STATE
from toposcope.hardware.matrix_annotation import reasons
from toposcope.hardware.topology import NodeTopology
from toposcope.kube.client import Request
from toposcope.kube.errors import ApiError
from toposcope.simulator.profile import load_profile


class Server:
    """Serves slices in one version, and notes when it was asked for them."""

    def __init__(self, served: str) -> None:
        self.served = served
        self.slices: list[Any] = []
        self.runtime = ManualRuntime()
        self.asked: list[float] = []
        self.audit = SliceAudit(self, "n1", self.runtime)  # type: ignore[arg-type]  # the client

    def read(self, request: Request) -> bytes:
        if f"/{self.served}/" not in request.path:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        assert request.query == {"fieldSelector": "spec.nodeName=n1"}
        self.asked.append(self.runtime.seconds)
        if not self.slices:
            raise ApiError(403, "Forbidden", "no right to list them")
        return json.dumps({"items": self.slices}).encode()


def described(folder: Path) -> tuple[Description, NodeTopology]:
    description = describe(probed(load_profile("dgx-h200"), folder), "n1")
    assert description.topology
    return description, description.topology


def said(audit: SliceAudit, description: Description) -> tuple[str, ...]:
    joined = audit.join(description)
    assert joined.labels == description.labels
    assert joined.labels.known[STATE] == "ok"
    assert joined.topology is not None
    assert reasons(joined.annotations[MATRIX]) == joined.topology.reasons
    return joined.topology.reasons


def test_disagreement_counts_once_two_reads_show_it(tmp_path: Path) -> None:
    description, topology = described(tmp_path)
    server = Server("v1beta2")
    wrong = gpus_of(topology)
    wrong[3]["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 7}
    server.slices = [slice_of("n1", GPUS, wrong)]
    assert said(server.audit, description) == ()
    server.runtime.seconds += 1.2 * DIFFERING_SECONDS
    (sentence,) = said(server.audit, description)
    assert sentence == f"GPU 3: gpu-3 of gpu.nvidia.com says numaNode 7, sysfs says {topology.gpus[3].numa}"
    server.slices = []  # a failure changes nothing
    server.runtime.seconds += 1.2 * DIFFERING_SECONDS
    assert said(server.audit, description) == (sentence,)
    server.slices = [slice_of("n1", GPUS, gpus_of(topology))]
    server.runtime.seconds += 1.2 * DIFFERING_SECONDS
    assert said(server.audit, description) == ()
    reads = len(server.asked)
    server.runtime.seconds += AGREEING_SECONDS - 1
    assert said(server.audit, description) == ()
    assert len(server.asked) == reads
    server.runtime.seconds += 0.2 * AGREEING_SECONDS
    said(server.audit, description)
    assert len(server.asked) == reads + 1


def test_new_hardware_is_audited_at_once(tmp_path: Path) -> None:
    description, topology = described(tmp_path)
    server = Server("v1")
    server.slices = [slice_of("n1", GPUS, gpus_of(topology))]
    assert said(server.audit, description) == ()
    said(server.audit, description._replace(topology=topology._replace(gpus=topology.gpus[:7])))
    assert len(server.asked) == 2


def test_without_slices_or_hardware_nothing_is_said(tmp_path: Path) -> None:
    description, _ = described(tmp_path)
    server = Server("none")
    assert said(server.audit, description) == ()
    assert server.audit.join(Description(description.labels)) == Description(description.labels)
