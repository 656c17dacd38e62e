"""`toposcope slots`: how many gangs of a size fit."""

import pytest
from tests.cli.clusters import jobs, nodes_only, parts
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
    assert "what runs is not known" in toposcope_on(nodes_only, "slots", code=2).err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("slots --gpus 8,x", "argument --gpus: 'x' is not a number; give 1 or more", id="gpus"),
        pytest.param("slots --gpus-per-pod 0", "'0' is not a number; give 1 or more", id="gpus-per-pod"),
    ],
)
def test_wrong_flag_of_slots_is_named(line: str, message: str, toposcope_on: CommandOnCluster) -> None:
    assert message in toposcope_on(jobs, line, code=2).err
