"""docs/integrations/jobs.md: the command of each recipe runs, with a launcher that says what it was given."""

import os
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "integrations" / "jobs.md"
RECIPES = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
GIVEN = {
    "Job": {"JOB_COMPLETION_INDEX": "{}"},
    "LeaderWorkerSet": {"LWS_WORKER_INDEX": "{}", "LWS_GROUP_SIZE": "2", "LWS_LEADER_ADDRESS": "train-0.train"},
}
"""What each controller puts into the environment of a pod; {} is its number."""


def container_of(recipe: dict[str, Any]) -> dict[str, Any]:
    spec = recipe["spec"]
    template = spec.get("template") or spec["leaderWorkerTemplate"]["workerTemplate"]
    return template["spec"]["containers"][0]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe["kind"])
def test_recipe_gives_torchrun_the_ranks_by_rack(recipe: dict[str, Any], tmp_path: Path) -> None:
    launcher = tmp_path / "torchrun"
    launcher.write_text('#!/bin/sh\necho "$PET_NODE_RANK of $PET_NNODES: $*"\n')
    launcher.chmod(0o755)
    container = container_of(recipe)
    program = str(ROOT / "toposcope" / "rank.py")
    words = [word.replace("/opt/toposcope/rank.py", program) for word in container["command"]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = "{}:{}".format(*free.getsockname())
    started = []
    for number in range(2):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TOPOSCOPE_PATH": f"rack=r{9 - number}"}
        for entry in container.get("env", []):
            environment[entry["name"]] = entry["value"]
        for name, value in GIVEN[recipe["kind"]].items():
            environment[name] = value.format(number)
        for name, value in environment.items():
            environment[name] = value.replace("train-0.train", place)
        started.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=60)[0] for process in started]
    assert said == ["1 of 2: --nproc-per-node=8 train.py\n", "0 of 2: --nproc-per-node=8 train.py\n"]
