"""Shipped, recorded and broken machines, through simulated NVML and sysfs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.machines import changed, discovered, probed, recorded_machines
from tests.support.tables import each_row
from toposcope.agent.describe import describe
from toposcope.agent.labels import labels_for
from toposcope.api.label_keys import PREFIX
from toposcope.api.label_values import is_label_value
from toposcope.hardware.topology import Fabric, State
from toposcope.simulator.capture import machine_from_capture
from toposcope.simulator.faults import Faults
from toposcope.simulator.machine import Fabric as FabricAnswer
from toposcope.simulator.profile import load_profile, profile_names


class Discovered(msgspec.Struct, forbid_unknown_fields=True):
    """A shipped machine, what is wrong with it, and what must be found."""

    case: str
    profile: str
    driver: str = ""
    faults: dict[str, Any] = {}
    """As in a fault file."""
    first: dict[str, Any] = {}
    """Other facts about its first GPU."""
    found: dict[str, Any] = {}
    """Values by their place in the topology: `*` is each of several, and one value stands for all of them."""
    labels: dict[str, str | None] = {}
    """Labels without their prefix, None for those that it must not have; those left out may be any."""
    unknown: set[str] | None = None
    as_newest: bool = False
    """Matrix and labels are those by the newest driver and without faults."""


def at(topology: Any, path: str) -> Any:
    """What is in one place, or in several, as YAML has it."""
    step, _, rest = path.partition(".")
    if not step:
        return msgspec.json.decode(msgspec.json.encode(topology))
    if step == "*":
        return [at(item, rest) for item in topology]
    if step == "len":
        return len(topology)
    return at(topology[int(step)] if step.isdigit() else getattr(topology, step), rest)


@pytest.mark.regression
@each_row("discovered.yaml", Discovered, ids=lambda row: row.case)
def test_what_is_found_of_a_machine(row: Discovered, tmp_path: Path) -> None:
    newest = load_profile(row.profile)
    machine = changed(replace(newest, driver=row.driver or newest.driver), **row.first)
    topology = discovered(machine, tmp_path, msgspec.convert(row.faults, Faults))
    for path, expected in row.found.items():
        found = at(topology, path)
        several = isinstance(found, list) and not isinstance(expected, list)
        assert found == ([expected] * len(found) if several else expected), path
        assert found != [], path
    made = labels_for(topology, "n1")
    assert {key: made.known.get(PREFIX + key) for key in row.labels} == row.labels
    assert row.unknown is None or made.unknown == {PREFIX + key for key in row.unknown}
    if row.as_newest:
        whole = discovered(newest, tmp_path)
        assert (topology.matrix, made) == (whole.matrix, labels_for(whole, "n1"))


@pytest.mark.parametrize("profile", profile_names())
def test_every_shipped_machine_is_ok_and_every_label_valid(profile: str, tmp_path: Path) -> None:
    topology = discovered(load_profile(profile), tmp_path)
    assert (topology.state, topology.reasons) == (State.OK, ())
    known = labels_for(topology, "a-node").known
    assert all(is_label_value(value) for value in known.values())
    assert f"{PREFIX}nvlink-domain" in known


@pytest.mark.parametrize("status", [0, 999])
def test_completed_with_a_zero_uuid_is_no_fabric(status: int, tmp_path: Path) -> None:
    """HGX boards without multi-node NVLink answer so (torchcomms#1385, torchcomms#936)."""
    machine = load_profile("dgx-h200")
    gpus = tuple(replace(gpu, fabric=FabricAnswer(state=3, status=status)) for gpu in machine.gpus)
    topology = discovered(replace(machine, gpus=gpus), tmp_path)
    assert (topology.fabric, topology.state) == (Fabric.NOT_SUPPORTED, State.OK)


def test_nvml_that_does_not_start_says_what_to_do_and_which_gpus_wait(tmp_path: Path) -> None:
    machine = load_profile("l40s-4")
    description = describe(probed(machine, tmp_path, Faults(init_error=999)), "n1")
    assert "restart" in description.problem
    assert machine.gpus[0].function.address in description.problem
    assert description.labels.known == {f"{PREFIX}state": "unknown"}
    assert f"{PREFIX}gpus" in description.labels.unknown


RECORDED = recorded_machines()


@pytest.mark.parametrize("name", RECORDED)
def test_the_discovered_matrix_is_the_recorded_one(name: str, tmp_path: Path) -> None:
    recorded = RECORDED[name]
    topology = discovered(machine_from_capture(recorded.text, name), tmp_path)
    names = (*(f"GPU{gpu.index}" for gpu in topology.gpus), *(nic.name for nic in topology.nics))
    # Drivers that name columns after the NICs list them in the order of their discovery.
    assert names == recorded.devices if recorded.numbered else set(names) == set(recorded.devices)
    cells = {(a, b): topology.matrix.cells[i][j] for i, a in enumerate(names) for j, b in enumerate(names)}
    assert cells == recorded.cells
