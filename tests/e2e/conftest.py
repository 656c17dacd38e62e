"""The cluster that all tests here share, in the order in which they stand: `make e2e` runs them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.cluster import Cluster
from tests.support.programs import nvml_in_c
from tools.libnvml.build import lines_of, write_table
from toposcope.simulator.nvml import SimulatedNvml
from toposcope.simulator.profile import load_profile

FOLDER = os.environ.get("TOPOSCOPE_E2E")
collect_ignore_glob = [] if FOLDER else ["test_*.py"]
"""Elsewhere than in the namespaces that `python -m tests.e2e` makes they would change this machine's network."""

MACHINES = {"gpu1": "hgx-h100-8", "gpu2": "gb200-nvl72-tray"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    folder = Path(str(FOLDER))
    machines = {}
    for name, profile in MACHINES.items():
        machine = folder / "nvml" / name
        machine.mkdir(parents=True)
        shutil.copy(nvml_in_c() / "libnvidia-ml.so.1", machine)
        nvml = SimulatedNvml(load_profile(profile))
        write_table(machine / "table", lines_of(nvml))
        machines[name] = machine
    with Cluster(folder, machines) as running:
        yield running
