"""CONTRIBUTING.md: its tree names every package, and its walks stay short."""

import re

import pytest
from tests.support.paths import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WALKS = {"From the hardware to a label": 15, "From a label to a condition": 20}
PACKAGES = {f"toposcope/{path.parent.name}/" for path in (ROOT / "toposcope").glob("*/__init__.py")}


def between(begin: str, end: str) -> str:
    """The part of the page after some words, up to others."""
    _, _, after = PAGE.partition(begin)
    part, _, _ = after.partition(end)
    return part


@pytest.mark.parametrize(("walk", "limit"), WALKS.items())
def test_walk_leads_through_few_files_that_exist(walk: str, limit: int) -> None:
    section = between(f"**{walk}**", "\n**")
    files = re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)
    assert 0 < len(files) <= limit
    for file in files:
        path = ROOT / file
        assert path.is_file(), file


def test_tree_names_every_package_and_no_other_folder() -> None:
    section = between("## The tree", "##")
    named = set()
    for folder in re.findall(r"`([\w/]+/)`", section):
        if folder.startswith("toposcope/"):
            named.add(folder)
    assert named == PACKAGES
