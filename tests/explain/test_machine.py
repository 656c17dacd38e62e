"""The checks on one node; tests/cli/test_explain.py has the demo's machines, and what the command prints of them."""

from pathlib import Path

from tests.support.saved import Object, demo_nodes, pod, saved
from tests.support.sharing import sharing_node
from tests.support.slices import GPUS, attributes, slice_of
from toposcope.explain.machine import examine
from toposcope.integrations.framework.features import CheckStep
from toposcope.snapshot.files import load_files

NODE = "h200-1"


def steps_of(folder: Path, *objects: Object) -> dict[str, CheckStep]:
    """The checks on the first of the objects, which is a Node."""
    file = folder / "cluster.json"
    file.write_text(saved(list(objects)), encoding="utf-8")
    snapshot = load_files([str(file)], keep_matrix=lambda *_: True)
    node = snapshot.by_name[objects[0]["metadata"]["name"]]
    return {step.name: step for step in examine(snapshot, node)}


def demo_node() -> Object:
    """A node of the demo as its agent describes it."""
    (node,) = demo_nodes(of=[NODE])
    return node


def slices(*devices: Object) -> Object:
    """What NVIDIA's driver publishes of the node."""
    named = [{"name": f"gpu-{number}", "attributes": found} for number, found in enumerate(devices)]
    return slice_of(NODE, GPUS, named)


def test_hardware_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    node = sharing_node("n", agent=8, offers={"nvidia.com/gpu": 8}, state="unknown")
    hardware = steps_of(tmp_path, node)["hardware"]

    assert hardware.outcome == "unknown"
    assert hardware.message == "its hardware does not answer; its labels are stale"
    assert [str(command) for command in hardware.commands] == ["toposcope matrix n"]


def test_node_without_gpus_needs_no_agent(tmp_path: Path) -> None:
    node = sharing_node("n", agent=None, offers={})
    steps = steps_of(tmp_path, node)

    assert steps["agent"].outcome == "passed"
    assert steps["agent"].message == "it has no GPUs that an agent, a device plugin or a DRA driver reports"
    assert steps["hardware"].message == "no agent has labelled it"
    assert steps["devices"].message == "no whole GPUs are offered to pods"


def test_mig_devices_in_place_of_gpus_are_no_failure(tmp_path: Path) -> None:
    node = sharing_node("n", agent=4, offers={"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 28})
    devices = steps_of(tmp_path, node)["devices"]

    assert devices.outcome == "passed"
    assert devices.message == "no whole GPUs are offered to pods"


def test_fewer_gpus_for_pods_than_the_node_has_is_a_failure(tmp_path: Path) -> None:
    node = sharing_node("n", agent=8, offers={"nvidia.com/gpu": 6})
    devices = steps_of(tmp_path, node, pod("p", "n", 2))["devices"]

    assert devices.outcome == "failed"
    assert devices.message == "it has 8 GPUs, and pods can ask for 6"
    assert devices.details == ("6 as nvidia.com/gpu, 4 free",)


def test_driver_is_compared_with_nothing_where_the_agent_wrote_no_matrix(tmp_path: Path) -> None:
    node = demo_node()
    node["metadata"]["annotations"] = {}
    driver = steps_of(tmp_path, node, slices(attributes(type="gpu", uuid="GPU-1")))["driver"]

    assert driver.outcome == "unknown"
    assert driver.message == "its agent has recorded no devices to compare with the driver's"


def test_partitions_of_the_nvswitch_are_told_by_size(tmp_path: Path) -> None:
    gpus = []
    for number in range(4):
        gpus.append(attributes(type="gpu", uuid=f"GPU-{number}", partition2=number // 2, partition4=0))
    domain = steps_of(tmp_path, demo_node(), slices(*gpus))["domain"]

    assert domain.outcome == "passed"
    assert domain.details == (
        "Fabric Manager has 2 partitions of 2 GPUs",
        "Fabric Manager has 1 partition of 4 GPUs",
    )
