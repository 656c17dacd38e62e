"""What a probe asks NVML: everything at first and every tenth time, and in between only what can have changed."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from toposcope.agent.nvml.gateway import Nvml
from toposcope.agent.probe import probe
from toposcope.agent.raw import RawNode
from toposcope.agent.sysfs import Sysfs
from toposcope.simulator.faults import CallFault, MachineFaults
from toposcope.simulator.machine import Machine
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile
from toposcope.simulator.sysfs import write_sysfs

GPUS = 8
PER_GPU_AT_REST = 6
"""Handle, address, UUID, MIG mode, states of the links, fabric."""


class Listened:
    """A simulated NVML that counts what it is asked, and an agent's gateway to it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.calls: Counter[str] = Counter()
        self.fields = 0
        write_sysfs(machine, folder / "sys")
        self._sysfs = Sysfs(folder / "sys")
        self.nvml = SimulatedNvml(machine)
        self.gateway = Nvml(self)
        self._started = self.gateway.start()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.nvml, name)
        if not name.startswith("nvmlDevice") and not name.startswith("nvmlSystem"):
            return attribute

        def asked(*arguments: Any) -> Any:
            self.calls[name] += 1
            if name == "nvmlDeviceGetFieldValues":
                self.fields += len(arguments[1])
            return attribute(*arguments)

        return asked

    def probe(self) -> RawNode:
        self.calls.clear()
        self.fields = 0
        return probe(self.gateway, self._sysfs, self._started)


@pytest.fixture
def board(tmp_path: Path) -> Listened:
    return Listened(load_profile("dgx-h200"), tmp_path)


def at_rest(module: Listened) -> None:
    """The second probe, which finds what the first has found."""
    first = module.probe()
    second = module.probe()
    assert second == first


def test_board_at_rest_is_asked_six_questions_a_gpu(board: Listened) -> None:
    at_rest(board)
    assert board.calls.total() <= 1 + PER_GPU_AT_REST * GPUS, board.calls
    assert board.fields == 18 * GPUS


def test_tray_at_rest_is_asked_about_links_to_the_cpu_too(tmp_path: Path) -> None:
    tray = Listened(load_profile("gb200-nvl72-tray"), tmp_path)
    at_rest(tray)
    most = 1 + (PER_GPU_AT_REST + 1) * 4
    assert tray.calls.total() <= most, tray.calls


@pytest.mark.parametrize("profile", ["t4-1", "l40s-4", "k80-4", "rtx4090-8"])
def test_cards_at_rest_without_links_are_not_asked_about_them(profile: str, tmp_path: Path) -> None:
    machine = load_profile(profile)
    cards = Listened(machine, tmp_path)
    at_rest(cards)
    assert cards.calls["nvmlDeviceGetFieldValues"] == 0
    assert cards.calls["nvmlDeviceGetNvLinkState"] == 0
    most = 1 + (PER_GPU_AT_REST - 1) * len(machine.gpus)
    assert cards.calls.total() <= most, cards.calls


def test_tenth_probe_asks_everything_again(board: Listened) -> None:
    board.probe()
    everything = +board.calls
    board.probe()
    board.gateway.forget()
    board.probe()
    assert board.calls == everything


def test_refused_facts_of_a_gpu_are_asked_again(board: Listened) -> None:
    """Only an answer is remembered, be it that there is no such thing."""
    board.nvml.faults = one_refusal("nvmlDeviceGetName", code=999)
    nameless = board.probe()
    assert nameless.gpus[3].name is None

    board.nvml.faults = one_refusal("nvmlDeviceGetPlatformInfo", code=999)
    again = board.probe()
    assert again.gpus[3].name == "NVIDIA H200"
    assert board.calls["nvmlDeviceGetName"] == 1


def one_refusal(call: str, code: int) -> MachineFaults:
    refusal = CallFault(call=call, gpu=3, error=code)
    return MachineFaults(calls=(refusal,))


def test_lost_gpu_is_noticed_at_rest(board: Listened) -> None:
    board.probe()
    board.nvml.faults = one_refusal("nvmlDeviceGetFieldValues", code=15)
    raw = board.probe()
    indexes = [gpu.index for gpu in raw.gpus]
    assert indexes == [0, 1, 2, 4, 5, 6, 7]
