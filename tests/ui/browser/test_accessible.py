"""axe finds nothing serious, in both colours and widths; nothing is wider than the screen."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.support.paths import ROOT
from tests.ui.browser.screen import Screen
from tests.ui.browser.shown import FAULTY
from tests.ui.browser.test_check import JOB, ask

pytestmark = pytest.mark.slow

AXE = ROOT / "toposcope" / "ui" / "page" / "node_modules" / "axe-core" / "axe.min.js"
PLACES = {
    "map": "",
    "node": f"node={FAULTY}",
    "product": "by=product&in=zone-1/block-1",
}


def serious(page: Page) -> list[str]:
    """What axe finds serious or worse, each with where."""
    # Not as a script of the page, which its policy would refuse.
    page.evaluate(AXE.read_text() + ";undefined")
    found: list[dict[str, Any]] = page.evaluate("axe.run().then(result => result.violations)")
    texts = []
    for violation in found:
        if violation["impact"] not in {"serious", "critical"}:
            continue
        for part in violation["nodes"]:
            summary = part.get("failureSummary", "")
            texts.append(f"{violation['id']}: {part['target']} {summary}")
    return texts


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_serious(screen: Screen, place: str, scheme: Any, width: int) -> None:
    page = screen.page
    screen.resize(width, 844)
    page.emulate_media(color_scheme=scheme)
    screen.open(PLACES[place])
    _expect_ready(page, place)
    assert serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def _expect_ready(page: Page, place: str) -> None:
    if place == "node":
        title = re.compile("Links between the GPUs")
        table = page.get_by_role("table", name=title)
        expect(table).to_be_visible()
    else:
        first = page.locator(".overlay button").first
        expect(first).to_be_attached()


def test_axe_finds_nothing_serious_in_the_other_tabs_and_the_search(screen: Screen) -> None:
    page = screen.page
    screen.open()
    screen.tab("Changes").click()
    assert serious(page) == []
    ask(screen, JOB)
    expect(screen.panel).to_contain_text("fits")
    assert serious(page) == []
    screen.search.fill("gb200")
    results = page.get_by_role("listbox")
    first = results.get_by_role("option").first
    expect(first).to_be_visible()
    assert serious(page) == []


def test_telephone_shows_the_same(screen: Screen) -> None:
    screen.resize(390, 844)
    screen.open()
    block = screen.domain("block block-2")
    expect(block).to_be_attached()
    faulty = screen.panel.get_by_role("button", name=re.compile(FAULTY))
    faulty.click()
    heading = screen.heading(FAULTY)
    expect(heading).to_be_in_viewport()
    screen.button("Back to the map").click()
    rack = screen.domain("rack rack-3")
    a_node = screen.page.get_by_role("button", name=re.compile("^node h200-1"))
    expect(rack.or_(a_node)).to_be_attached()


def test_there_are_landmarks_and_headings_and_a_way_past_the_head(screen: Screen) -> None:
    page = screen.page
    screen.open()
    landmarks = [
        page.get_by_role("banner"),
        page.get_by_role("main"),
        page.get_by_role("complementary", name="Details"),
        page.get_by_role("search"),
    ]
    for landmark in landmarks:
        expect(landmark).to_be_visible()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_count(1)
    screen.press("Tab")
    skip = screen.button("Skip to the map")
    expect(skip).to_be_focused()
    screen.press("Enter")
    block = screen.domain("block block-1")
    expect(block).to_be_focused()
