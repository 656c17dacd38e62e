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
def test_the_flag_raises_it(tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "cluster.json"
    demo = enumerate(demo_nodes())
    nodes = [{**node, "metadata": node["metadata"] | {"name": f"n{i}-{k}"}} for i, node in demo for k in range(4)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))  # on one line
    assert "raise --from-limit (now 1)" in toposcope("tree --from-limit 1 --from", file, code=2).err
    toposcope("tree --from", file)
    assert "is not a number of MiB" in toposcope("tree --from-limit 0 --from", file, code=2).err


@pytest.mark.regression
@pytest.mark.parametrize(
    "words", ["tree --config /dev/zero", "export --format kai --convert /dev/zero", "discover --capture /dev/zero"]
)
def test_small_files_have_an_end(words: str, toposcope: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toposcope.cli.streams._MOST_BYTES", LIMIT)
    assert "/dev/zero: larger than 1 MiB; is it the right file?" in toposcope(words, code=None).err


def test_a_small_pipe_is_read_once() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"catalogue: {}")
    os.close(writing)
    assert [read_small(f"/dev/fd/{reading}") for _ in range(2)] == [b"catalogue: {}"] * 2
    os.close(reading)
