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


def said(audit: SliceAudit, description: Description) -> tuple[str, ...]:
    joined = audit.join(description)
    assert joined.labels == description.labels
    assert joined.labels.by_key[STATE] == "ok"
    assert joined.topology is not None
    assert reasons(joined.annotations[MATRIX]) == joined.topology.reasons
    return joined.topology.reasons


class Site:
    """A DGX H200, and the server that has its slices."""

    def __init__(self, server: Server, folder: Path) -> None:
        raw = probed(load_profile("dgx-h200"), folder)
        description = describe(raw, "n1")
        assert description.topology
        self.description = description
        self.topology = description.topology
        self.server = server

    def passes(self, seconds: float) -> None:
        self.server.runtime.seconds += seconds

    def said(self) -> tuple[str, ...]:
        """What the audit says next."""
        return said(self.server.audit, self.description)


def test_disagreement_counts_once_two_reads_show_it(tmp_path: Path) -> None:
    server = Server("v1beta2")
    site = Site(server, tmp_path)
    right = gpus_of(site.topology)
    wrong = gpus_of(site.topology)
    wrong[3]["attributes"]["resource.kubernetes.io/numaNode"] = {"int": 7}
    server.slices = [slice_of("n1", GPUS, wrong)]
    assert site.said() == ()

    site.passes(1.2 * DIFFERING_SECONDS)
    (sentence,) = site.said()
    numa = site.topology.gpus[3].numa
    assert sentence == f"GPU 3: gpu-3 of gpu.nvidia.com has numaNode 7, but sysfs has {numa}"

    server.slices = []  # a failure changes nothing
    site.passes(1.2 * DIFFERING_SECONDS)
    assert site.said() == (sentence,)

    server.slices = [slice_of("n1", GPUS, right)]
    site.passes(1.2 * DIFFERING_SECONDS)
    assert site.said() == ()

    reads = len(server.asked)
    site.passes(AGREEING_SECONDS - 1)
    assert site.said() == ()
    assert len(server.asked) == reads

    site.passes(0.2 * AGREEING_SECONDS)
    site.said()
    assert len(server.asked) == reads + 1


def test_new_hardware_is_audited_at_once(tmp_path: Path) -> None:
    server = Server("v1")
    site = Site(server, tmp_path)
    right = gpus_of(site.topology)
    server.slices = [slice_of("n1", GPUS, right)]
    assert site.said() == ()

    *others, _last = site.topology.gpus
    fewer = site.topology._replace(gpus=tuple(others))
    said(server.audit, site.description._replace(topology=fewer))
    assert len(server.asked) == 2


def test_without_slices_or_hardware_nothing_is_said(tmp_path: Path) -> None:
    server = Server("none")
    site = Site(server, tmp_path)
    assert site.said() == ()

    without_hardware = Description(site.description.labels)
    assert server.audit.join(without_hardware) == without_hardware
