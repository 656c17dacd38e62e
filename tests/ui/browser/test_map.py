"""The map in a real browser: what it shows, and every way to go into it and back."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import cluster_topology, demo_nodes, pod
from tests.ui.browser.screen import Screen, click_head, click_on, colours_of
from tests.ui.browser.shown import FAULTY, RACK, demo_objects, shown

pytestmark = pytest.mark.slow


def test_whole_cluster_at_a_glance(screen: Screen) -> None:
    screen.open()
    first = screen.domain("block block-1")
    expect(first).to_have_accessible_name("block block-1: 6 nodes, 24 GPUs, 21 free, 4 of them out of reach")
    second = screen.domain("block block-2")
    expect(second).to_have_accessible_name("block block-2: 6 nodes, 48 GPUs, 48 free, 1 with problems")
    entries = screen.page.get_by_role("listitem")
    hurting = entries.filter(has_text=FAULTY)
    expect(hurting).to_contain_text("degraded")
    expect(hurting).to_contain_text("rack-3")
    banner = screen.conditions
    expect(banner).to_contain_text("LevelsCovered=False")  # as the documentation and the runbooks name it
    expect(banner).to_contain_text("NodesMissingLevels")
    expect(banner).to_contain_text("Level 'rack' is missing on l40s-4")
    expect(banner).not_to_contain_text("Ready=")
    degraded = screen.chip("degraded")
    expect(degraded).to_contain_text("1")


def test_node_left_out_stands_apart_with_the_reason(screen: Screen) -> None:
    screen.open()
    screen.expect_node("l40s-4", rf"left out: without a rack label \({RACK}\)")
    screen.expect_node("l40s-3", "no-agent")
    lowest = screen.domain("block block-1").bounding_box()
    apart = screen.node("l40s-4").bounding_box()
    assert lowest
    assert apart
    bottom = lowest["y"] + lowest["height"]
    assert apart["y"] > bottom


def test_click_goes_in_and_the_browser_goes_back(screen: Screen) -> None:
    page = screen.page
    screen.open()
    click_head(page, screen.domain("block block-2"))
    screen.expect_address("in=zone-1/block-2")
    rack = screen.domain("rack rack-3")
    expect(rack).to_be_attached()
    other_block = screen.domain("block block-1")
    expect(other_block).not_to_be_attached()
    click_head(page, rack)
    click_on(page, screen.node("h200-2"))
    heading = screen.heading("h200-2")
    expect(heading).to_be_visible()
    screen.expect_address("in=zone-1/block-2/rack-3&node=h200-2")
    page.go_back()
    node = screen.node("h200-4")
    expect(node).to_be_attached()
    page.go_back()
    other_rack = screen.domain("rack rack-4")
    expect(other_rack).to_be_attached()
    cluster = screen.path.get_by_role("button", name="cluster")
    cluster.click()
    expect(other_block).to_be_attached()


def test_free_gpus_that_no_pod_can_get_look_and_read_so(page: Page, tmp_path: Path) -> None:
    """A pod without GPUs holds the CPU of a node: its GPUs are free, and nobody can get them."""
    objects = [item for item in demo_objects() if item["kind"] != "Pod"]
    for item in objects:
        if item["kind"] == "Node":
            item["status"]["allocatable"] |= {"cpu": "96"}
    web = pod("web", "h200-1", 0)
    web["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "95"}}}]
    with shown(tmp_path, [*objects, web]) as found:
        screen = Screen(page, found.address)
        screen.open("in=zone-1/block-2/rack-3&by=free")
        screen.expect_node("h200-1", "8 GPUs, 8 free, out of reach, healthy: too little CPU is left")
        screen.expect_node("h200-2", "8 GPUs, 8 free, healthy")
        chip = screen.chip("out of reach")
        expect(chip).to_contain_text("1")
        assert colours_of(screen.node("h200-1"))[0] == screen.tone("--free-2")
        figures = screen.panel.locator("dl").first
        expect(figures).to_contain_text("of them out of reach8")


def test_everything_by_keyboard(screen: Screen) -> None:
    screen.open()
    first_block = screen.domain("block block-1")
    block = screen.domain("block block-2")
    rack = screen.domain("rack rack-3")
    first_node = screen.node("h200-1")
    last_node = screen.node("h200-4")
    heading = screen.heading("h200-4")

    first_block.focus()
    screen.press("ArrowRight")
    expect(block).to_be_focused()
    screen.press("Enter")
    expect(rack).to_be_focused()
    screen.press("Enter")
    expect(first_node).to_be_focused()
    screen.press("End")
    expect(last_node).to_be_focused()
    screen.press("Enter")
    expect(heading).to_be_focused()
    screen.press("Escape")
    expect(first_node).to_be_attached()
    first_node.focus()
    screen.press("Escape")
    expect(rack).to_be_focused()
    screen.press("Backspace")
    expect(block).to_be_focused()


def test_keys_go_back_after_a_click(screen: Screen) -> None:
    screen.open()
    block = screen.domain("block block-2")
    click_head(screen.page, block)
    rack = screen.domain("rack rack-3")
    expect(rack).to_be_attached()
    screen.press("Escape")
    expect(block).to_be_attached()


def test_keys_go_back_after_a_search(screen: Screen) -> None:
    screen.open()
    screen.search.fill("h200-4")
    screen.press("Enter")
    heading = screen.heading("h200-4")
    expect(heading).to_be_visible()
    screen.page.mouse.click(5, 400)  # the focus is nowhere
    screen.press("Backspace")
    node = screen.node("h200-4")
    expect(node).to_be_attached()
    screen.press("Backspace")
    rack = screen.domain("rack rack-3")
    expect(rack).to_be_attached()


def test_keys_go_back_from_a_link(screen: Screen) -> None:
    screen.open("in=zone-1/block-2/rack-3")
    node = screen.node("h200-1")
    expect(node).to_be_attached()
    screen.press("Escape")
    rack = screen.domain("rack rack-3")
    expect(rack).to_be_attached()


def test_backspace_in_the_search_box_only_deletes(screen: Screen) -> None:
    screen.open("in=zone-1/block-2/rack-3")
    node = screen.node("h200-1")
    expect(node).to_be_attached()
    screen.search.fill("h2")
    screen.press("Backspace")
    expect(screen.search).to_have_value("h")
    expect(node).to_be_attached()


def test_link_shows_a_colleague_the_same(screen: Screen) -> None:
    screen.open("in=zone-1/block-2/rack-3&by=free&only=all")
    faulty = screen.node(FAULTY)
    expect(faulty).to_be_attached()
    expect(screen.colour_by).to_have_value("free")
    chosen = screen.chip("all free")
    expect(chosen).to_have_attribute("aria-pressed", "true")


def test_degraded_node_has_its_own_colour_and_a_pattern(screen: Screen) -> None:
    screen.open("in=zone-1/block-2/rack-3")
    sick = colours_of(screen.node(FAULTY))
    well = colours_of(screen.node("h200-1"))
    assert sick[0] == screen.tone("--health-degraded")
    assert well[0] == screen.tone("--health-ok")
    assert len(sick) > len(well) + 5, "the strokes of the pattern are colours of their own"


KINDS = ["--kind-1", "--kind-2", "--kind-3"]


@pytest.mark.parametrize(
    ("lens", "category", "tones"),
    [
        pytest.param("free", "all free", ["--free-4"], id="free"),
        pytest.param("coverage", "has every level", ["--cover-whole"], id="coverage"),
        pytest.param("product", "NVIDIA-GB200", KINDS, id="product"),
        pytest.param("shape", "NVIDIA-GB200", KINDS, id="shape"),
    ],
)
def test_viewer_picks_what_colours_nodes_and_one_kind_of_them(
    screen: Screen, lens: str, category: str, tones: list[str]
) -> None:
    screen.open("in=zone-1/block-1/rack-1")
    screen.colour_by.select_option(lens)
    chosen = screen.chip(category)
    chosen.click()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    address = re.compile(f"by={lens}&only=")
    expect(screen.page).to_have_url(address)
    most_frequent = colours_of(screen.node("gb200-02"))[0]
    assert most_frequent in {screen.tone(name) for name in tones}
    show_all = screen.button("Show all")
    show_all.click()
    expect(chosen).to_have_attribute("aria-pressed", "false")


def test_filtered_nodes_fade(screen: Screen) -> None:
    screen.open("in=zone-1/block-2/rack-3")
    degraded = screen.chip("degraded")
    degraded.click()
    expect(degraded).to_have_attribute("aria-pressed", "true")
    sick = colours_of(screen.node(FAULTY))
    well = colours_of(screen.node("h200-1"))
    assert sick[0] == screen.tone("--health-degraded")
    assert well[0] != screen.tone("--health-ok")


def test_another_topology_is_another_map(page: Page, tmp_path: Path) -> None:
    nodes = demo_nodes(most=4)
    host = {"domain": "host", "key": "kubernetes.io/hostname"}
    flat = cluster_topology(levels=[host])
    flat["metadata"] |= {"name": "flat", "uid": "2"}
    with shown(tmp_path, [*nodes, cluster_topology(), flat]) as served:
        screen = Screen(page, served.address)
        screen.open()
        node = screen.node("gb200-01")
        expect(node).to_be_attached()

        screen.topology.select_option("flat")

        screen.expect_address("view=flat")
        expect(screen.path).to_contain_text("flat")
        page.reload()
        expect(screen.topology).to_have_value("flat")


def test_dark_or_light_as_the_browser_prefers_until_somebody_chooses(screen: Screen) -> None:
    page = screen.page
    page.emulate_media(color_scheme="dark")
    screen.open()
    screen.expect_theme("dark")
    switch = screen.button("Switch to light colours")
    switch.click()
    screen.expect_theme("light")
    page.reload()
    screen.expect_theme("light")
    assert page.context.cookies() == []
