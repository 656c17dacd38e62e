"""tools/docgen/documents.toml names every field that commands print with `-o json`."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.clusters import SavedCluster, busy, busy_cpus, changed_demo, demo, gaps, jobs
from tests.cli.conftest import Command, CommandOnCluster
from tests.explain.causes import no_room
from tests.support.paths import ROOT
from tests.support.saved import saved
from tools.docgen.documents import documents

MAPS = frozenset(
    {
        "allocatable",
        "blockedGpus",
        "domains",
        "free",
        "hardware",
        "leftOut",
        "marks",
        "nodes",
        "resources",
        "states",
    }
)
"""Fields whose own fields are names of the cluster's objects, where they are no lists."""
EXAMPLES = ROOT / "docs" / "examples"


def fields(document: Any) -> Iterator[str]:
    """The names of all fields in a document."""
    if isinstance(document, list):
        for entry in document:
            yield from fields(entry)
    if isinstance(document, dict):
        for name, value in document.items():
            yield name
            if name not in MAPS or not isinstance(value, dict):
                yield from fields(value)


def without_a_word(command: str, document: Any) -> set[str]:
    """The fields of a document that the line about its command does not name."""
    table = documents()
    line = table[command]
    for other in ("tree", "score"):
        line = line.replace(f"(as in `{other}`)", table[other])
    return set(fields(document)) - set(re.findall(r"[A-Za-z]+", line))


@pytest.mark.parametrize(
    ("cluster", "line"),
    [
        pytest.param(demo, "status", id="status"),
        pytest.param(demo, "tree", id="tree"),
        pytest.param(busy_cpus, "tree", id="tree-with-blocked-gpus"),
        pytest.param(gaps, "tree", id="tree-with-gaps"),
        pytest.param(demo, "nodes", id="nodes"),
        pytest.param(demo, "levels", id="levels"),
        pytest.param(demo, "matrix h200-3", id="matrix"),
        pytest.param(busy, f"check -f {EXAMPLES}/grove-wrong.yaml -f {EXAMPLES}/kai.yaml", id="check"),
        pytest.param(demo, "explain node/h200-3", id="explain-node"),
        pytest.param(jobs, "score", id="score"),
        pytest.param(busy_cpus, "slots", id="slots"),
        pytest.param(jobs, "whatif --drain h200-1", id="whatif"),
        pytest.param(jobs, "whatif --free 72", id="whatif-free"),
        pytest.param(jobs, "drain-order -n 2", id="drain-order"),
    ],
)
def test_fields_of_a_document_are_documented(
    cluster: Callable[[], SavedCluster], line: str, toposcope_on: CommandOnCluster
) -> None:
    command = line.split(maxsplit=1)[0]
    ran = toposcope_on(cluster, f"{line} -o json", code=None)
    assert without_a_word(command, ran.json) == set()


def test_fields_of_an_explanation_are_documented(tmp_path: Path, toposcope: Command) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(saved(no_room().objects), encoding="utf-8")
    ran = toposcope(f"explain pod/llm-0-worker-2 -o json --from {file}", code=1)
    assert without_a_word("explain", ran.json) == set()


def test_fields_of_a_difference_are_documented(tmp_path: Path, toposcope_on: CommandOnCluster) -> None:
    before = demo().save(tmp_path / "before.json")
    ran = toposcope_on(changed_demo, f"diff {before} -o json", code=1)
    assert without_a_word("diff", ran.json) == set()
