"""CONTRIBUTING.md: its tree names every package, and its walks stay short."""

import re

import pytest
from tests.support.paths import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = {"From the hardware to a label": 15, "From a label to a condition": 20}
PACKAGES = {f"toposcope/{path.parent.name}/" for path in (ROOT / "toposcope").glob("*/__init__.py")}


@pytest.mark.parametrize(("walk", "limit"), WALKS.items())
def test_a_walk_leads_through_few_files_that_exist(walk: str, limit: int) -> None:
    files = re.findall(r"^\d+\. `([^`]+)`", PAGE.partition(f"**{walk}**")[2].partition("\n**")[0], re.MULTILINE)
    assert 0 < len(files) <= limit
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_tree_names_every_package_and_no_other_folder() -> None:
    folders = set(re.findall(r"`([\w/]+/)`", PAGE.partition("## The tree")[2].partition("##")[0]))
    assert folders >= PACKAGES
    assert {folder for folder in folders if folder.startswith("toposcope/")} == PACKAGES
