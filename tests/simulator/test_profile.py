"""Profiles are strict: an error names file, field and fix."""

import re
from pathlib import Path

import msgspec
import pytest
from tests.support.paths import FIXTURES
from tests.support.tables import each_case, each_row
from toposcope.simulator.faults import CallFault, FaultError, load_faults
from toposcope.simulator.machine import Remote
from toposcope.simulator.profile import ProfileError, load_profile, profile_names

GOOD = (FIXTURES / "profiles" / "bench.yaml").read_text(encoding="utf-8")


def load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(text)
    load_profile(file)


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_are_named_after_their_file_and_described(name: str) -> None:
    machine = load_profile(name)
    assert machine.name == name
    assert machine.description
    assert machine.notes == ()
    assert len({function.address for function in machine.functions}) == len(machine.functions)


def test_a_profile_gives_the_same_machine_every_time() -> None:
    assert load_profile("dgx-h200") == load_profile("dgx-h200")


def test_the_rest_of_the_ports_is_inactive(tmp_path: Path) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text(GOOD.replace("links: 4}", "links: 4, inactive: {1: [0]}}"))
    first, second = load_profile(file).gpus
    assert [link.active for link in first.links] == [False, True, False, False]
    assert [link.active for link in second.links] == [False, True, False, False]
    assert [link.remote for link in first.links] == [Remote.GPU, Remote.GPU, Remote.UNKNOWN, Remote.UNKNOWN]


class Mistake(msgspec.Struct, forbid_unknown_fields=True):
    old: str
    new: str
    says: str


@each_row("profile_errors.yaml", Mistake, ids=lambda row: row.says)
def test_an_error_names_the_field_and_the_fix(row: Mistake, tmp_path: Path) -> None:
    assert row.old in GOOD
    with pytest.raises(ProfileError, match=re.escape(row.says)):
        load(tmp_path, GOOD.replace(row.old, row.new, 1))


def test_too_many_ports_on_one_bus(tmp_path: Path) -> None:
    nics = [f"mlx5_{i}" for i in range(33)]
    text = GOOD.replace("[mlx5_0]", f"[{', '.join(nics)}]").replace("gpu0, mlx5_0", f"gpu0, {', '.join(nics)}")
    with pytest.raises(ProfileError, match="more than 32 ports on one bus"):
        load(tmp_path, text)


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(ProfileError, match=r"dgx-h300: neither a profile file nor a shipped profile; .*dgx-h200"):
        load_profile("dgx-h300")


def test_faults_come_with_a_profile_or_from_a_file(tmp_path: Path) -> None:
    text = (
        "init_error: 9\nlost: [1]\nlinks_down: {0: [3], 1: all}\nfabric: {0: {state: 2}}\n"
        "calls: [{call: nvmlDeviceGetName, gpu: 1, error: 15}, {call: nvmlDeviceGetCount, hang: true}]\n"
    )
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    faults = load_faults(file)
    profile = tmp_path / "bench.yaml"
    profile.write_text(GOOD + "faults:\n" + "".join(f"  {line}\n" for line in text.splitlines()))
    assert load_profile(profile).faults == faults
    assert faults.calls == (CallFault("nvmlDeviceGetName", 15, 1), CallFault("nvmlDeviceGetCount", hang=True))
    assert (faults.link_down(0, 3), faults.link_down(0, 2), faults.link_down(1, 2)) == (True, False, True)


@pytest.mark.regression
@each_case("simulator.yaml")
def test_a_wrong_fault_file(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(text)
    with pytest.raises(FaultError, match=re.escape(says)):
        load_faults(file)
