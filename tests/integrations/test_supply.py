"""What a suggested claim selects is linked, on every simulated machine, whichever devices the scheduler takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from tests.support.machines import discovered
from tests.support.sampling import slow_after
from tests.support.slices import GPUS, device_class, gpus_of, slice_of
from toposcope.agent.annotation import annotation_for
from toposcope.integrations.dra.allocation import Claims
from toposcope.integrations.dra.devices import DraDevice, Inventory, NodeDevices, inventory
from toposcope.integrations.dra.supply import SuppliedNode, Supply, machine, supply
from toposcope.integrations.framework.document import Field
from toposcope.simulator.profile import load_profile, profile_names

CLAIMS = Claims.of([device_class(GPUS, f"device.driver == '{GPUS}'")])


@dataclass(frozen=True)
class Machines:
    """Simulated machines, as a claim finds them."""

    machines: list[SuppliedNode]
    offered: Inventory

    def suggestion(self, gpus: int) -> Supply:
        """The claim of so many GPUs that are linked by NVLink."""
        return supply(self.machines, self.offered, CLAIMS, gpus=gpus, link="nvlink", nic_class=None)


def machines_of(profiles: list[str], folder: Path) -> Machines:
    topologies = {name: discovered(load_profile(name), folder / name) for name in profiles}
    slices = []
    for name, topology in topologies.items():
        slices.append(slice_of(name, GPUS, gpus_of(topology)))
    offered = inventory(slices)
    machines = []
    for name, topology in topologies.items():
        devices = offered.nodes.get(name, NodeDevices())
        machines.append(machine(name, devices, annotation_for(topology)))
    return Machines(machines, offered)


def selections(spec: Any, on: SuppliedNode) -> Iterator[tuple[DraDevice, ...]]:
    """Every set of GPUs that the claim may get on a machine."""
    (request,) = spec["devices"]["requests"]
    constraints = spec["devices"].get("constraints", [])
    alternatives = [{"name": "gpus", "exactly": way} for way in request.get("firstAvailable", [])]
    for alternative in alternatives or [request]:
        claim = CLAIMS.read_spec(Field({"devices": {"requests": [alternative]}}))
        wanted = claim.requests[0]
        suitable = [gpu for gpu in on.gpus if wanted.takes(gpu)]
        for gpus in combinations(suitable, wanted.count):
            if all(has_one_value(gpus, constraint["matchAttribute"]) for constraint in constraints):
                yield gpus


def has_one_value(gpus: tuple[DraDevice, ...], attribute: str) -> bool:
    values = {gpu.attribute(attribute) for gpu in gpus}
    return len(values) == 1 and None not in values


@pytest.mark.parametrize("gpus", [2, 3, 4])
@pytest.mark.parametrize("others", slow_after(1, [[], ["rtx4090-8", "l40s-4"]]), ids=["alone", "beside-others"])
def test_claim_gets_linked_gpus_wherever_it_is_met(gpus: int, others: list[str], tmp_path: Path) -> None:
    met: set[str] = set()
    for name in profile_names():
        simulated = machines_of(sorted({name, *others}), tmp_path)
        suggestion = simulated.suggestion(gpus)
        nodes = set()
        for each in simulated.machines:
            for selection in selections(suggestion.spec, each):
                nodes.add(each.node)
                assert each.are_linked(selection), (each.node, selection)
        assert nodes == set(suggestion.nodes)
        if not suggestion.nodes:
            assert linked_sets(simulated.machines, gpus) <= (0 if gpus == 2 else 8), name
        met |= nodes
    assert {"dgx-h200", "hgx-a100-4"} <= met
    assert ({"h100-nvl-2", "rtx3090-2-nvlink"} <= met) == (gpus == 2)


def linked_sets(machines: list[SuppliedNode], gpus: int) -> int:
    """How many sets of so many GPUs are linked."""
    count = 0
    for each in machines:
        for some in combinations(each.gpus, gpus):
            count += each.are_linked(some)
    return count


@pytest.mark.parametrize("difference", ["links-not-known", "selector-in-error"])
def test_machine_that_looks_the_same_spoils_the_claim(difference: str, tmp_path: Path) -> None:
    (sound,) = machines_of(["rtx3090-2-nvlink"], tmp_path).machines
    devices = gpus_of(discovered(load_profile("rtx3090-2-nvlink"), tmp_path / "rtx3090-2-nvlink"))
    if difference == "selector-in-error":
        del devices[0]["attributes"]["productName"]
        del devices[0]["attributes"]["resource.kubernetes.io/pciBusID"]
    offered = inventory([slice_of("other", GPUS, devices)])
    other = machine("other", offered.nodes["other"], None)
    assert Machines([sound], offered).suggestion(2).nodes == ("rtx3090-2-nvlink",)
    assert Machines([sound, other], offered).suggestion(2).nodes == ()
