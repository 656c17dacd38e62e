"""What Dynamo's webhook (main of 2026-08) says of deployments, from its own table and its source; `check` agrees."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import FIXTURES
from toposcope.placement.check import Checker
from toposcope.snapshot.files import load_files

RECORDED: dict[str, Any] = json.loads(gzip.decompress((FIXTURES / "answers" / "dynamo.json.gz").read_bytes()))
LEFT_OUT = "…"


def binding(name: str, domains: list[str]) -> dict[str, Any]:
    levels = [{"domain": domain, "key": f"topology.kubernetes.io/{domain}"} for domain in domains]
    kind = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding"}
    return {**kind, "metadata": {"name": name}, "spec": {"levels": levels}}


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    saved: Path = tmp_path_factory.mktemp("cluster") / "bindings.json"
    items = [binding(name, domains) for name, domains in RECORDED["binding"].items()]
    saved.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), encoding="utf-8")
    return Checker(load_files([str(saved)]))


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: str(case["name"]))
def test_check_says_what_dynamo_says(case: dict[str, Any], checker: Checker) -> None:
    (checked,) = checker.check(case["object"], case["old"])
    ours = [found for found in checked.reading.findings if found.severity == "error"]
    assert bool(ours) is not case["accepted"], ours
    for message in case["messages"]:
        words = re.split(LEFT_OUT, message.strip("()"))
        shown = [f"{found.field}: {found.message}" for found in ours]
        last = words[-1].rpartition(": ")[2].strip() or words[0].rpartition(": ")[2].strip()
        assert any(last in text for text in shown), (message, shown)


def test_the_record_holds_every_answer() -> None:
    assert [case["accepted"] for case in RECORDED["cases"]].count(True) == 5
    assert len(RECORDED["cases"]) == 24
