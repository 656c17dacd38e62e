"""The map in a real browser: what it shows, and every way to go into it and back."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.support.saved import cluster_topology, demo_nodes
from tests.ui.browser.shown import FAULTY, RACK, Shown, script, shown

pytestmark = pytest.mark.slow


def domain(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"^{name}: "))


def node(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(rf"^node {name}: "))


def chip(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name="Show only").get_by_role("button", name=name)


def click_head(page: Page, of: Locator) -> None:
    """Click where the name of a domain is drawn."""
    box = of.bounding_box()
    assert box
    page.mouse.click(box["x"] + 30, box["y"] + 10)


def click_on(page: Page, of: Locator) -> None:
    box = of.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def colours_of(of: Locator) -> list[str]:
    """The colours that the canvas has under a button, the most frequent first."""
    found: list[str] = of.evaluate(script("colours"))
    return found


def tone(page: Page, name: str) -> str:
    return page.evaluate("name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()", name)


def test_whole_cluster_at_a_glance(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    expect(domain(page, "block block-1")).to_have_accessible_name("block block-1: 5 nodes, 20 GPUs, 17 free")
    expect(domain(page, "block block-2")).to_have_accessible_name(
        "block block-2: 6 nodes, 48 GPUs, 48 free, 1 in trouble"
    )
    hurting = page.get_by_role("listitem").filter(has_text=FAULTY)
    expect(hurting).to_contain_text("degraded")
    expect(hurting).to_contain_text("rack-3")
    banner = page.get_by_role("region", name="Conditions that are not True")
    expect(banner).to_contain_text("LevelsCovered=False")  # as the documentation and the runbooks name it
    expect(banner).to_contain_text("NodesMissingLevels")
    expect(banner).to_contain_text("Level 'rack' is missing on l40s-4")
    expect(banner).not_to_contain_text("Ready=")
    expect(chip(page, "degraded")).to_contain_text("1")


def test_node_left_out_stands_apart_with_the_reason(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    expect(node(page, "l40s-4")).to_have_accessible_name(re.compile(rf"left out: without a rack label \({RACK}\)"))
    expect(node(page, "l40s-3")).to_have_accessible_name(re.compile("no-agent"))
    lowest = domain(page, "block block-1").bounding_box()
    apart = node(page, "l40s-4").bounding_box()
    assert lowest
    assert apart
    assert apart["y"] > lowest["y"] + lowest["height"]


def test_click_goes_in_and_the_browser_goes_back(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    click_head(page, domain(page, "block block-2"))
    expect(page).to_have_url(f"{demo.address}#in=zone-1/block-2")
    expect(domain(page, "rack rack-3")).to_be_attached()
    expect(domain(page, "block block-1")).not_to_be_attached()
    click_head(page, domain(page, "rack rack-3"))
    click_on(page, node(page, "h200-2"))
    expect(page.get_by_role("heading", name="h200-2", level=2)).to_be_visible()
    expect(page).to_have_url(f"{demo.address}#in=zone-1/block-2/rack-3&node=h200-2")
    page.go_back()
    expect(node(page, "h200-4")).to_be_attached()
    page.go_back()
    expect(domain(page, "rack rack-4")).to_be_attached()
    page.get_by_role("navigation", name="Where you are").get_by_role("button", name="cluster").click()
    expect(domain(page, "block block-1")).to_be_attached()


def test_everything_by_keyboard(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    domain(page, "block block-1").focus()
    page.keyboard.press("ArrowRight")
    expect(domain(page, "block block-2")).to_be_focused()
    page.keyboard.press("Enter")
    expect(domain(page, "rack rack-3")).to_be_focused()
    page.keyboard.press("Enter")
    expect(node(page, "h200-1")).to_be_focused()
    page.keyboard.press("End")
    expect(node(page, "h200-4")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="h200-4", level=2)).to_be_focused()
    page.keyboard.press("Escape")
    expect(node(page, "h200-1")).to_be_attached()
    node(page, "h200-1").focus()
    page.keyboard.press("Escape")
    expect(domain(page, "rack rack-3")).to_be_focused()
    page.keyboard.press("Backspace")
    expect(domain(page, "block block-2")).to_be_focused()


def test_link_shows_a_colleague_the_same(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#in=zone-1/block-2/rack-3&by=free&only=all")
    expect(node(page, FAULTY)).to_be_attached()
    expect(page.get_by_role("combobox", name="Colour by")).to_have_value("free")
    expect(chip(page, "all free")).to_have_attribute("aria-pressed", "true")


def test_degraded_node_has_its_own_colour_and_a_pattern(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#in=zone-1/block-2/rack-3")
    sick, well = colours_of(node(page, FAULTY)), colours_of(node(page, "h200-1"))
    assert sick[0] == tone(page, "--health-degraded")
    assert well[0] == tone(page, "--health-ok")
    assert len(sick) > len(well) + 5, "the strokes of the pattern are colours of their own"


KINDS = ["--kind-1", "--kind-2", "--kind-3"]


@pytest.mark.parametrize(
    ("lens", "category", "tones"),
    [
        pytest.param("free", "all free", ["--free-4"], id="free"),
        pytest.param("coverage", "carries every level", ["--cover-whole"], id="coverage"),
        pytest.param("product", "NVIDIA-GB200", KINDS, id="product"),
        pytest.param("shape", "NVIDIA-GB200", KINDS, id="shape"),
    ],
)
def test_viewer_picks_what_colours_nodes_and_one_kind_of_them(
    page: Page, demo: Shown, lens: str, category: str, tones: list[str]
) -> None:
    page.goto(f"{demo.address}#in=zone-1/block-1/rack-1")
    page.get_by_role("combobox", name="Colour by").select_option(lens)
    chosen = chip(page, category)
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile(f"by={lens}&only="))
    assert colours_of(node(page, "gb200-02"))[0] in {tone(page, name) for name in tones}
    page.get_by_role("button", name="Show all").click()
    expect(chosen).to_have_attribute("aria-pressed", "false")


def test_filtered_nodes_fade(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#in=zone-1/block-2/rack-3")
    chip(page, "degraded").click()
    expect(chip(page, "degraded")).to_have_attribute("aria-pressed", "true")
    assert colours_of(node(page, FAULTY))[0] == tone(page, "--health-degraded")
    assert colours_of(node(page, "h200-1"))[0] != tone(page, "--health-ok")


def test_another_topology_is_another_map(page: Page, tmp_path: Path) -> None:
    nodes = demo_nodes(most=4)
    flat = cluster_topology(levels=[{"domain": "host", "key": "kubernetes.io/hostname"}])
    flat["metadata"] |= {"name": "flat", "uid": "2"}
    with shown(tmp_path, [*nodes, cluster_topology(), flat]) as served:
        page.goto(served.address)
        expect(node(page, "gb200-01")).to_be_attached()

        page.get_by_role("combobox", name="Topology or segment").select_option("flat")

        expect(page).to_have_url(f"{served.address}#view=flat")
        expect(page.get_by_role("navigation", name="Where you are")).to_contain_text("flat")
        page.reload()
        expect(page.get_by_role("combobox", name="Topology or segment")).to_have_value("flat")


def test_dark_or_light_as_the_browser_prefers_until_somebody_chooses(page: Page, demo: Shown) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(demo.address)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Switch to light colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    assert page.context.cookies() == []
