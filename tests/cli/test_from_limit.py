"""`--from-limit`, and files without end in every other flag that reads one."""

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.support.saved import demo_nodes
from toposcope.cli.streams import read_small

LIMIT = 1 << 20


@pytest.mark.regression
def test_flag_raises_the_limit(tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "cluster.json"
    nodes = []
    for copy in range(4):
        for number, node in enumerate(demo_nodes()):
            node["metadata"]["name"] = f"n{number}-{copy}"
            nodes.append(node)
    on_one_line = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    file.write_text(on_one_line)
    err = toposcope(f"tree --from-limit 1 --from {file}", code=2).err
    assert "raise --from-limit (now 1)" in err
    toposcope(f"tree --from {file}", code=1)  # no ClusterTopology


def test_limit_of_nothing_is_refused(toposcope: Command) -> None:
    assert "0 is too small; give 1 or more" in toposcope("tree --from-limit 0 --from x", code=2).err


@pytest.mark.regression
@pytest.mark.parametrize(
    "words",
    [
        pytest.param("tree --config /dev/zero", id="config"),
        pytest.param("export --format kai --convert /dev/zero", id="convert"),
        pytest.param("discover --capture /dev/zero", id="capture"),
    ],
)
def test_small_files_have_an_end(words: str, toposcope: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.cli.streams._MOST_BYTES", LIMIT)
    assert "/dev/zero: larger than 1 MiB; is it the right file?" in toposcope(words, code=None).err


def test_small_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"catalogue: {}")
    os.close(writing)
    first = read_small(f"/dev/fd/{reading}")
    second = read_small(f"/dev/fd/{reading}")
    os.close(reading)
    assert first == b"catalogue: {}"
    assert second == b"catalogue: {}"
