"""axe finds nothing serious, in both colours and widths; nothing is wider than the screen."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.support.paths import ROOT
from tests.ui.browser.shown import FAULTY, Shown
from tests.ui.browser.test_check import JOB, _ask
from tests.ui.browser.test_map import domain

pytestmark = pytest.mark.slow

AXE = ROOT / "toposcope" / "ui" / "page" / "node_modules" / "axe-core" / "axe.min.js"
PLACES = {"map": "", "node": f"#node={FAULTY}", "product": "#by=product&in=zone-1/block-1"}


def _serious(page: Page) -> list[str]:
    """What axe finds serious or worse, each with where."""
    # Not as a script of the page, which its policy would refuse.
    page.evaluate(AXE.read_text() + ";undefined")
    found: list[dict[str, Any]] = page.evaluate("axe.run().then(result => result.violations)")
    texts = []
    for violation in found:
        if violation["impact"] not in {"serious", "critical"}:
            continue
        for part in violation["nodes"]:
            texts.append(f"{violation['id']}: {part['target']} {part.get('failureSummary', '')}")
    return texts


def _ready(page: Page, place: str) -> None:
    if place == "node":
        expect(page.get_by_role("table", name=re.compile("How the GPUs"))).to_be_visible()
    else:
        expect(page.locator(".overlay button").first).to_be_attached()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", PLACES)
def test_axe_finds_nothing_serious(page: Page, demo: Shown, place: str, scheme: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(demo.address + PLACES[place])
    _ready(page, place)
    assert _serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing_serious_in_the_other_tabs_and_the_search(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    page.get_by_role("tab", name="Changes").click()
    assert _serious(page) == []
    _ask(page, JOB)
    expect(page.get_by_role("tabpanel")).to_contain_text("fits")
    assert _serious(page) == []
    page.get_by_role("combobox", name=re.compile("^Search")).fill("gb200")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_be_visible()
    assert _serious(page) == []


def test_telephone_shows_the_same(page: Page, demo: Shown) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(demo.address)
    expect(domain(page, "block block-2")).to_be_attached()
    page.get_by_role("tabpanel").get_by_role("button", name=re.compile(FAULTY)).click()
    expect(page.get_by_role("heading", name=FAULTY, level=2)).to_be_in_viewport()
    page.get_by_role("button", name="Back to the map").click()
    expect(
        domain(page, "rack rack-3").or_(page.get_by_role("button", name=re.compile("^node h200-1")))
    ).to_be_attached()


def test_there_are_landmarks_and_headings_and_a_way_past_the_head(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    expect(page.get_by_role("banner")).to_be_visible()
    expect(page.get_by_role("main")).to_be_visible()
    expect(page.get_by_role("complementary", name="About what is shown")).to_be_visible()
    expect(page.get_by_role("search")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to the map")).to_be_focused()
    page.keyboard.press("Enter")
    expect(domain(page, "block block-1")).to_be_focused()
