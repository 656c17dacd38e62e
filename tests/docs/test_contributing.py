"""CONTRIBUTING.md: its tree names every package, and its walks stay short."""

import re

import pytest
from tests.support.paths import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = {"From the hardware to a label": 15, "From a label to a condition": 20}
PACKAGES = {f"toposcope/{path.parent.name}/" for path in (ROOT / "toposcope").glob("*/__init__.py")}


@pytest.mark.parametrize(("walk", "limit"), WALKS.items())
def test_walk_leads_through_few_files_that_exist(walk: str, limit: int) -> None:
    _, _, after = PAGE.partition(f"**{walk}**")
    section, _, _ = after.partition("\n**")
    files = re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)
    assert 0 < len(files) <= limit
    missing = [file for file in files if not (ROOT / file).is_file()]
    assert missing == []


def test_tree_names_every_package_and_no_other_folder() -> None:
    _, _, after = PAGE.partition("## The tree")
    section, _, _ = after.partition("##")
    folders = re.findall(r"`([\w/]+/)`", section)
    assert {folder for folder in folders if folder.startswith("toposcope/")} == PACKAGES
