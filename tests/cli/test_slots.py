"""`toposcope slots`: how many gangs of a size fit."""

import pytest
from tests.cli.clusters import GPUS, HOST, RACK, SavedCluster, busy_cpus, dedicated, jobs, nodes_only, parts
from tests.cli.conftest import CommandOnCluster
from tests.support.pages import expected_page

pytestmark = pytest.mark.regression


def test_slots_are_their_page(toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(jobs, "slots")
    assert ran.out == expected_page("cli/pages/slots.txt", ran.out)


def test_slots_for_scripts_say_how_fragmented_a_level_is(toposcope_on: CommandOnCluster) -> None:
    slots = toposcope_on(jobs, "slots --gpus 16 --gpus-per-pod 8 -o json").json["slots"]
    assert slots[0] == {
        "gpus": 16,
        "domain": "zone",
        "now": 2,
        "ended": 4,
        "empty": 4,
        "fragmented": 0.738,
    }


def test_slots_larger_than_any_domain_are_said(toposcope_on: CommandOnCluster) -> None:
    assert "No domain holds 4,096 GPUs" in toposcope_on(jobs, "slots --gpus 4096,4").out


def test_pods_with_parts_of_gpus_are_not_counted(toposcope_on: CommandOnCluster) -> None:
    assert "! not counted: 1 pod with parts of GPUs (MIG" in toposcope_on(parts, "slots").out


def test_slots_need_pods(toposcope_on: CommandOnCluster) -> None:
    assert "what runs and what is free are unknown" in toposcope_on(nodes_only, "slots", code=2).err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("slots --gpus 8,x", "argument --gpus: 'x' is not a number; give 1 or more", id="gpus"),
        pytest.param(
            "slots --gpus-per-pod 0", "argument --gpus-per-pod: 0 is too small; give 1 or more", id="gpus-per-pod"
        ),
    ],
)
def test_wrong_flag_of_slots_is_named(line: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(jobs, line, code=2).err


def test_slots_count_cpu_and_memory_of_pods(toposcope_on: CommandOnCluster) -> None:
    """Of two nodes in a rack one has no CPU left: no gang of 16 GPUs fits, until the Job that holds it has ended."""
    ran = toposcope_on(busy_cpus, "slots --gpus 16")
    heading, head, row, _, blocked, by_whom = ran.out.splitlines()
    assert heading == (
        "Gangs that fit into one domain, of pods with 8 GPUs, 48 CPU cores and 480 GiB of memory each "
        "(--gpus-per-pod, --like)"
    )
    assert head == "GPUS  LEVEL  NOW  ENDED  EMPTY  UNUSABLE"
    assert row == "  16  rack     0      2      2      100%"
    assert blocked.startswith("! blocked: 16 free GPUs out of reach of a pod with 1 GPU, 6 CPU cores and ")
    assert by_whom == "  16 GPUs on 2 nodes (n0, n2), where too little CPU is left: train/cpu-0 and train/cpu-1 hold it"


def without_slots() -> SavedCluster:
    """A node that lacks the level that the spec lists."""
    cluster = SavedCluster(most=0)
    cluster.add_node("n0", {HOST: "n0", GPUS: "8"})
    cluster.run("p", ["n0"], gpus=1)
    cluster.add_topology(levels=[{"domain": "rack", "key": RACK}])
    return cluster


@pytest.mark.parametrize("output", ["table", "wide"])
def test_no_slot_that_can_be_counted_is_an_answer(output: str, toposcope_on: CommandOnCluster) -> None:
    out = toposcope_on(without_slots, f"slots -o {output}").out
    assert "! no slot can be counted: no node carries every level (rack); toposcope levels says what is missing" in out
    assert toposcope_on(without_slots, "slots -o json").json["slots"] == []


NOT_COUNTED = (
    "! not counted: 32 GPUs on 4 nodes (n0, n1, n2, ...) that have the taint dedicated=ml:NoSchedule, "
    "except for gangs that tolerate it; --tolerate dedicated=ml counts them"
)


@pytest.mark.parametrize("line", ["slots", "score", "drain-order", "whatif --drain n0"])
def test_planning_says_what_it_leaves_out_because_of_taints(line: str, toposcope_on: CommandOnCluster) -> None:
    assert NOT_COUNTED in toposcope_on(dedicated, line).out.splitlines()


@pytest.mark.parametrize("flag", ["dedicated", "dedicated=ml", "dedicated=ml:NoSchedule"])
def test_tolerated_taint_keeps_no_gang_out(flag: str, toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(dedicated, f"slots --gpus 16 --tolerate {flag} -o json").json
    (rack,) = ran["slots"]
    assert rack["now"] == 2
    assert ran["tainted"] == []


@pytest.mark.parametrize("flag", ["dedicated=other", "dedicated=ml:NoExecute"])
def test_other_toleration_counts_no_tainted_node(flag: str, toposcope_on: CommandOnCluster) -> None:
    ran = toposcope_on(dedicated, f"slots --gpus 16 --tolerate {flag} -o json").json
    assert ran["slots"] == []
    (tainted,) = ran["tainted"]
    assert tainted == {
        "taint": {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
        "gpus": 32,
        "nodes": ["n0", "n1", "n2", "n3"],
    }


def test_wrong_toleration_is_named(toposcope_on: CommandOnCluster) -> None:
    said = toposcope_on(dedicated, "slots --tolerate dedicated:Never", code=2).err
    assert "'dedicated:Never' is not KEY[=VALUE][:EFFECT], such as team=vision:NoSchedule" in said


def test_domain_is_freed_where_a_taint_is_tolerated(toposcope_on: CommandOnCluster) -> None:
    refused = toposcope_on(dedicated, "whatif --free 16", code=2).err
    assert NOT_COUNTED.removeprefix("! ") in refused
    ran = toposcope_on(dedicated, "whatif --free 16 --tolerate dedicated")
    assert "has room for a gang of 16 GPUs now" in ran.out
