"""Parts of GPUs that KAI hands out: what its webhook refuses, and how many pods a node takes."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.integrations.clusters import CLUSTER
from tests.support.checking import Finding, Read, error, read
from tests.support.documents import Edits, document
from toposcope.integrations.framework.constraints import GpuShare, Group, Pods
from toposcope.integrations.framework.placement import OfferedShares
from toposcope.integrations.kai.gpu_shares import gpus_of_share, in_whole_gpus, offered_shares
from toposcope.integrations.kai.pod_shares import share_of
from toposcope.placement.room import RoomNode
from toposcope.snapshot.model import PodView

pytestmark = pytest.mark.regression

GPU = "nvidia.com/gpu"
FRACTION = "spec.template.metadata.annotations.gpu-fraction"
MEMORY = "spec.template.metadata.annotations.gpu-memory"
DEVICES = "spec.template.metadata.annotations.gpu-fraction-num-devices"
MPS = "spec.template.metadata.annotations.mps"
LIMITS = "spec.template.spec.containers[0].resources.limits"
HALF = GpuShare(1, fraction=0.5)


def read_job(edits: Edits) -> Read:
    return read("KAI", document("kai/job", {LIMITS: None, **edits}), CLUSTER)


def refused(field: str, message: str, *, fix: str) -> Finding:
    """KAI's webhook refuses the annotation."""
    return error("kai/gpu-share", field, message, fix=fix)


def node(*, free: int = 2, total: int = 2, memory: str = "81559", mig: str = "") -> RoomNode:
    """A node with GPUs of so many MiB."""
    labels = {"nvidia.com/gpu.memory": memory}
    if mig:
        labels |= {"node-role.kubernetes.io/mig-enabled": "true", "nvidia.com/mig.strategy": mig}
    return RoomNode(name="n", labels=labels, free={GPU: free}, total={GPU: total})


def pod(name: str, *, group: str = "", gpus: int = 0, **annotations: str) -> PodView:
    """A pod on the node, with annotations that have `_` for `-`."""
    return PodView(
        namespace="ml",
        name=name,
        node="n",
        phase="Running",
        requests={GPU: gpus} if gpus else {},
        owner=None,
        labels={"runai-gpu-group": group} if group else {},
        annotations={key.replace("_", "-"): value for key, value in annotations.items()},
        scheduler="kai-scheduler",
        waiting="",
    )


def offered(share: GpuShare, *pods: PodView, on: RoomNode | None = None) -> OfferedShares:
    return offered_shares(on or node(), share, pods)


def test_share_when_annotated_is_understood() -> None:
    assert share_of({"gpu-fraction": "0.5"}) == HALF
    assert share_of({"gpu-memory": "20000"}) == GpuShare(1, memory_mib=20000)
    assert share_of({"gpu-fraction": ".25", "gpu-fraction-num-devices": "2"}) == GpuShare(2, fraction=0.25)


@pytest.mark.parametrize("annotations", [{}, {"gpu-fraction": "1"}, {"gpu-fraction": "x"}, {"gpu-memory": "-1"}])
def test_share_when_none_is_annotated_is_none(annotations: dict[str, str]) -> None:
    assert share_of(annotations) is None


def test_node_when_idle_takes_two_halves_of_each_gpu() -> None:
    assert offered(HALF) == OfferedShares(now=4, empty=4)


def test_node_when_its_gpus_are_taken_whole_takes_no_half() -> None:
    assert offered(HALF, on=node(free=0)) == OfferedShares(now=0, empty=4)


def test_node_without_gpus_takes_no_half() -> None:
    assert offered(HALF, on=node(free=0, total=0)) == OfferedShares(now=0, empty=0)


def test_gpu_when_shared_takes_what_is_left_of_it() -> None:
    reservation = pod("reservation", group="g", gpus=1)
    sharing = pod("half", group="g", gpu_fraction="0.5")
    assert offered(HALF, reservation, sharing, on=node(free=1)) == OfferedShares(now=3, empty=4)


def test_gpu_when_shared_takes_no_more_than_is_left() -> None:
    reservation = pod("reservation", group="g", gpus=1)
    sharing = pod("most", group="g", gpu_fraction="0.6")
    assert offered(HALF, reservation, sharing, on=node(free=0)) == OfferedShares(now=0, empty=4)


def test_share_without_a_group_has_its_gpu_to_itself() -> None:
    assert offered(HALF, pod("half", gpu_fraction="0.5"), on=node(free=2)) == OfferedShares(now=3, empty=4)


def test_memory_counts_in_hundreds_of_mib() -> None:
    assert offered(GpuShare(1, memory_mib=40750)) == OfferedShares(now=4, empty=4)
    assert offered(GpuShare(1, memory_mib=40751)) == OfferedShares(now=2, empty=2)


def test_memory_when_more_than_a_gpu_has_fits_nowhere() -> None:
    assert offered(GpuShare(1, memory_mib=90000)) == OfferedShares(now=0, empty=0)


def test_memory_where_no_label_says_how_much_takes_a_gpu() -> None:
    unlabelled = node(memory="")
    assert offered(GpuShare(1, memory_mib=20000), on=unlabelled) == OfferedShares(now=2, empty=2)


def test_parts_of_two_gpus_take_the_fullest_gpus() -> None:
    assert offered(GpuShare(2, fraction=0.5), on=node(free=3, total=3)) == OfferedShares(now=2, empty=2)


def test_memory_label_in_bytes_is_understood() -> None:
    in_bytes = node(memory=str(81_559 << 20))
    assert offered(GpuShare(1, memory_mib=40750), on=in_bytes) == OfferedShares(now=4, empty=4)


def test_memory_label_of_less_than_a_hundred_mib_counts_as_none() -> None:
    assert offered(HALF, on=node(memory="99")) == offered(HALF, on=node(memory=""))


def test_pod_that_shares_several_gpus_takes_a_part_of_each() -> None:
    reservations = [pod("r0", group="g0", gpus=1), pod("r1", group="g1", gpus=1)]
    groups = {"runai-gpu-group/g0": "g0", "runai-gpu-group/g1": "g1", "app": "x"}
    both = replace(pod("both", gpu_fraction="0.5", gpu_fraction_num_devices="2"), labels=groups)
    assert offered(HALF, *reservations, both, on=node(free=0)) == OfferedShares(now=2, empty=4)


def test_pod_of_whole_gpus_shares_none() -> None:
    assert offered(HALF, pod("whole", gpus=1), on=node(free=1)) == OfferedShares(now=2, empty=4)


def test_share_counts_for_a_queue_as_on_the_largest_gpus() -> None:
    nodes = [node(memory="40960"), node(memory="81559")]
    assert gpus_of_share(GpuShare(2, fraction=0.25), nodes) == 0.5
    assert gpus_of_share(GpuShare(2, memory_mib=20000), nodes) == 0.5
    assert gpus_of_share(GpuShare(1, memory_mib=50), []) == 0.5


def test_pods_that_share_are_counted_in_whole_gpus_where_nothing_is_shared() -> None:
    whole = Pods("whole", 1, ((GPU, 2),))
    shared = Pods("shared", 3, (("cpu", 500),)).sharing(GpuShare(2, fraction=0.5))
    inner = Group("inner", (shared,))
    assert in_whole_gpus([Group("all", (whole,), (inner,))]) == [
        Group("all", (whole,), (Group("inner", (Pods("shared", 3, (("cpu", 500), (GPU, 2))),)),))
    ]


@pytest.mark.parametrize(
    ("labels", "slices", "takes"),
    [
        pytest.param({"nvidia.com/mig.strategy": "mixed"}, 2, False, id="slices"),
        pytest.param({"nvidia.com/mig.strategy": "none"}, 2, True, id="strategy-none"),
        pytest.param({"nvidia.com/mig.strategy": "mixed"}, 0, True, id="no-slices"),
        pytest.param(
            {"nvidia.com/mig.strategy": "mixed", "node-role.kubernetes.io/mig-enabled": "false"},
            2,
            True,
            id="the-role-label-decides",
        ),
    ],
)
def test_node_with_slices_takes_no_shares(labels: dict[str, str], slices: int, takes: bool) -> None:
    gpus = {GPU: 2}
    if slices:
        gpus["nvidia.com/mig-1g.10gb"] = slices
    offering = RoomNode(name="n", labels={"nvidia.com/gpu.memory": "81559", **labels}, free=gpus, total=gpus)
    count = 4 if takes else 0
    assert offered(HALF, on=offering) == OfferedShares(now=count, empty=count)


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_node_with_mig_takes_no_shares(strategy: str) -> None:
    assert offered(HALF, on=node(mig=strategy)) == OfferedShares(now=0, empty=0)


def test_fraction_of_one_or_more_is_refused() -> None:
    answer = read_job({FRACTION: "1"})
    assert answer.findings == [
        refused(
            FRACTION,
            "gpu-fraction annotation value must be a positive number smaller than 1.0",
            fix="set a fraction of one GPU, in quotes: '0.5'; or request nvidia.com/gpu",
        )
    ]


def test_fraction_beside_gpus_is_refused() -> None:
    answer = read_job({FRACTION: "0.5", LIMITS: {GPU: "1"}})
    assert answer.findings == [
        refused(
            FRACTION,
            "cannot have both GPU fraction request and whole GPU resource request/limit",
            fix="remove it, or the limit of nvidia.com/gpu",
        )
    ]


def test_fraction_beside_memory_is_refused() -> None:
    answer = read_job({FRACTION: "0.5", MEMORY: "1000"})
    assert answer.findings == [refused(MEMORY, "cannot request both GPU and GPU memory", fix="keep one of them")]


def test_memory_that_is_no_number_is_refused() -> None:
    answer = read_job({MEMORY: "20Gi"})
    assert answer.findings == [
        refused(
            MEMORY,
            "gpu-memory annotation value must be a positive integer greater than 0",
            fix="set the MiB of one GPU, in quotes: '20000'",
        )
    ]


def test_number_of_shared_gpus_alone_is_refused() -> None:
    answer = read_job({DEVICES: "2"})
    assert answer.findings == [
        refused(
            DEVICES,
            "cannot request multiple fractional devices without specifying fraction portion or gpu-memory",
            fix="set gpu-fraction or gpu-memory, or remove it",
        )
    ]


def test_wrong_number_of_shared_gpus_is_refused() -> None:
    answer = read_job({FRACTION: "0.5", DEVICES: "0"})
    assert answer.findings == [
        refused(
            DEVICES,
            "fraction count annotation value must be a positive integer greater than 0",
            fix="set a whole number, in quotes: '2'",
        )
    ]


def test_mps_without_a_share_is_refused() -> None:
    answer = read_job({MPS: "true"})
    assert answer.findings == [
        refused(
            MPS,
            "MPS is only supported with GPU fraction request",
            fix="set gpu-fraction or gpu-memory, or remove it",
        )
    ]


def test_pods_that_share_are_noted_to_need_gpu_sharing() -> None:
    notes: Sequence[str] = read_job({FRACTION: "0.5"}).notes
    assert notes[-1] == (
        "KAI rejects pods that request a fraction of a GPU unless it is installed with global.gpuSharing: true, "
        "which its chart leaves off"
    )
