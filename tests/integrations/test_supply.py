"""What a suggested claim selects is linked, on every simulated machine, whichever devices the scheduler takes."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered
from tests.support.slices import GPUS, device_class, gpus_of, slice_of
from toposcope.agent.annotation import annotation_for
from toposcope.integrations.dra.allocation import Claims
from toposcope.integrations.dra.devices import NodeDevices, inventory
from toposcope.integrations.dra.supply import Machine, machine, supply
from toposcope.integrations.framework.document import Field
from toposcope.simulator.profile import load_profile, profile_names

CLAIMS = Claims.of([device_class(GPUS, f"device.driver == '{GPUS}'")])


def described(names: list[str], folder: Path) -> tuple[list[Machine], Any]:
    found = {name: discovered(load_profile(name), folder / name) for name in names}
    offered = inventory(slice_of(name, GPUS, gpus_of(topology)) for name, topology in found.items())
    return [
        machine(name, offered.nodes.get(name, NodeDevices()), annotation_for(topology))
        for name, topology in found.items()
    ], offered


def selections(spec: Any, one: Machine) -> list[tuple[Any, ...]]:
    """Every set of GPUs that the claim may get there."""
    (request,) = spec["devices"]["requests"]
    ways = [{"name": "gpus", "exactly": way} for way in request.get("firstAvailable", [])] or [request]
    found = []
    for way in ways:
        asked = CLAIMS.read_spec(Field({"devices": {"requests": [way]}}))
        devices = [gpu for gpu in one.gpus if asked.requests[0].takes(gpu)]
        for some in combinations(devices, asked.requests[0].count):
            values = [
                {gpu.attribute(c["matchAttribute"]) for gpu in some} for c in spec["devices"].get("constraints", [])
            ]
            found += [some] if all(len(value) == 1 and value != {None} for value in values) else []
    return found


@pytest.mark.parametrize("gpus", [2, 3, 4])
@pytest.mark.parametrize("others", [[], ["rtx4090-8", "l40s-4"]], ids=["alone", "beside-others"])
def test_what_it_may_get_is_linked_wherever_it_is_met(gpus: int, others: list[str], tmp_path: Path) -> None:
    met = set()
    for name in profile_names():
        machines, offered = described(sorted({name, *others}), tmp_path)
        found = supply(machines, offered, CLAIMS, gpus=gpus, link="nvlink", nic_class=None)
        may = {machine.node: selections(found.spec, machine) for machine in machines}
        assert {node for node, some in may.items() if some} == set(found.nodes)
        assert all(machine.all_linked(some) for machine in machines for some in may[machine.node])
        if not found.nodes:
            linked = [
                some for machine in machines for some in combinations(machine.gpus, gpus) if machine.all_linked(some)
            ]
            assert len(linked) <= 8 * (gpus > 2), name
        met |= set(found.nodes)
    assert {"dgx-h200", "hgx-a100-4"} <= met
    assert ({"h100-nvl-2", "rtx3090-2-nvlink"} <= met) == (gpus == 2)


@pytest.mark.parametrize("unlike", ["links-not-known", "selector-in-error"])
def test_a_machine_that_looks_the_same_spoils_it(unlike: str, tmp_path: Path) -> None:
    (sound, *_), _ = described(["rtx3090-2-nvlink"], tmp_path)
    devices = gpus_of(discovered(load_profile("rtx3090-2-nvlink"), tmp_path / "rtx3090-2-nvlink"))
    if unlike == "selector-in-error":
        for name in ("productName", "resource.kubernetes.io/pciBusID"):
            del devices[0]["attributes"][name]
    offered = inventory([slice_of("other", GPUS, devices)])
    other = machine("other", offered.nodes["other"], None)
    assert supply([sound], offered, CLAIMS, gpus=2, link="nvlink", nic_class=None).nodes == ("rtx3090-2-nvlink",)
    assert supply([sound, other], offered, CLAIMS, gpus=2, link="nvlink", nic_class=None).nodes == ()
