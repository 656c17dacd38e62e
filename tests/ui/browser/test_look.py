"""What the page looks like: on a telephone, on paper, with nothing to show; whole words, and who is left out."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import Object, cluster_topology
from tests.ui.browser.screen import Screen, colours_of
from tests.ui.browser.shown import RACK, Shown, condition, demo_objects, labels, named, script, shown

pytestmark = pytest.mark.slow


def troubled() -> list[Object]:
    """The demo with four conditions, and with nodes that are left out in three ways, cordoned and tainted."""
    objects = demo_objects()
    objects[-2]["status"]["conditions"] = [
        condition("LevelsCovered", "False", "NodesMissingLevels", "rack is missing on 2 of 12 nodes: h200-2, l40s-4"),
        condition("AgentsReporting", "False", "NodesWithoutLabels", "1 node has GPUs but no label of an agent: l40s-3"),
        condition("Published", "False", "NotServed", "the cluster serves no Topology of KAI"),
        condition("FabricHealthy", "False", "NodesDegraded", "1 node is degraded: h200-3"),
    ]
    labels(objects, "h200-2")[RACK] = "no-topology"
    named(objects, "h200-5")["spec"]["taints"] = [{"key": "maintenance", "value": "disk", "effect": "NoSchedule"}]
    named(objects, "h200-6")["spec"]["unschedulable"] = True
    return objects


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("troubled")
    with shown(folder, troubled()) as found:
        yield found


@pytest.fixture
def troubled_screen(page: Page, trouble: Shown) -> Screen:
    return Screen(page, trouble.address)


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_no_word_is_broken(troubled_screen: Screen, width: int) -> None:
    screen = troubled_screen
    screen.resize(width, 844)
    screen.open()
    tables = screen.page.get_by_role("table")
    domains = tables.filter(has_text="Domains")
    expect(domains).to_contain_text("2 nodes lack it")
    assert screen.page.evaluate(script("broken_words")) == []


@pytest.mark.parametrize("width", [390, 1024, 1280, 1920])
def test_all_tabs_are_on_the_screen_beside_a_badge(page: Page, tmp_path: Path, width: int) -> None:
    with shown(tmp_path, demo_objects()) as served:
        for number in range(14):
            objects = demo_objects()
            state = "degraded" if number % 2 else "ok"
            labels(objects, "h200-6")["gpu.topology/state"] = state
            served.write(objects)
        screen = Screen(page, served.address)
        screen.resize(width, 844)
        screen.open()
        changes = screen.tab("Changes")
        expect(changes).to_have_text(re.compile(r"Changes\d+"))
        plan = screen.tab("Plan").bounding_box()
        assert plan
        assert plan["x"] + plan["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_telephone_shows_conditions_in_brief_and_nodes_left_out(troubled_screen: Screen) -> None:
    screen = troubled_screen
    screen.resize(390, 844)
    screen.open()
    conditions = screen.conditions
    expect(conditions).to_contain_text("LevelsCovered=False, AgentsReporting=False, Published=False")
    box = conditions.bounding_box()
    assert box
    assert box["height"] < 844 / 6
    published = conditions.get_by_text("Published=False").first
    published.click()
    expect(conditions).to_contain_text("the cluster serves no Topology of KAI")
    for name in ("h200-2", "l40s-3", "l40s-4"):
        box = screen.node(name).bounding_box()
        assert box
        assert box["height"] >= 40, "room for a name"


@pytest.mark.parametrize(
    ("name", "colour", "words"),
    [
        pytest.param(
            "l40s-4",
            "left-out",
            "4 GPUs, 4 free, out of reach, left out: without a rack label (cloud.google.com/gce-topology-subblock)",
            id="without-rack",
        ),
        pytest.param(
            "h200-2",
            "left-out",
            'left out: whose rack label (cloud.google.com/gce-topology-subblock) is the placeholder "no-topology"',
            id="placeholder",
        ),
        pytest.param("l40s-3", "no-agent", "no-agent: without an agent's label gpu.topology/gpus", id="no-agent"),
        pytest.param("h200-5", "tainted", "tainted", id="tainted"),
        pytest.param("h200-6", "cordoned", "cordoned", id="cordoned"),
    ],
)
def test_node_that_gets_no_pods_does_not_look_well(troubled_screen: Screen, name: str, colour: str, words: str) -> None:
    screen = troubled_screen
    stands_apart = name not in {"h200-5", "h200-6"}
    # Those that stand apart are shown with the whole.
    screen.open("" if stands_apart else "in=zone-1/block-2/rack-4")
    node = screen.node(name)
    expect(node).to_be_attached()
    label = node.get_attribute("aria-label") or ""
    assert words in label
    most_frequent = colours_of(node)[0]
    assert most_frequent == screen.tone(f"--health-{colour}")
    assert most_frequent != screen.tone("--health-ok")


def test_counts_are_the_topologys_with_nodes_left_out_apart(troubled_screen: Screen, trouble: Shown) -> None:
    screen = troubled_screen
    screen.open()
    assert trouble.broadcaster.state
    view = trouble.broadcaster.state.views[0].summary
    assert view.nodes == 12
    assert view.gpus == 72
    assert view.left_out == 2
    lost = f"left out, with {view.left_out_gpus} GPUs"
    counts = {
        "GPUs": 72,
        "nodes": 12,
        lost: 2,
        "without an agent": 1,
        "with problems": 2,
    }
    figures = screen.panel.locator("dl").first
    for name, value in counts.items():
        title = screen.page.get_by_text(name, exact=True)
        figure = figures.locator("div").filter(has=title)
        expect(figure).to_have_text(f"{name}{value}")
    entries = screen.panel.get_by_role("listitem")
    for sentence in ("1 node whose rack label (", "1 node without an agent", "1 node without a rack label"):
        entry = entries.filter(has_text=sentence)
        expect(entry).to_be_visible()


def test_paper_is_light_and_has_all_of_it(troubled_screen: Screen) -> None:
    screen = troubled_screen
    page = screen.page
    page.emulate_media(color_scheme="dark")
    screen.open("in=zone-1/block-2/rack-3")
    node = screen.node("h200-1")
    expect(node).to_be_attached()
    dark = screen.tone("--health-ok")
    printed = node.evaluate(script("printed_colour"))
    assert printed != dark
    assert printed == screen.tone("--health-ok")
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 248)"
    assert screen.panel.evaluate("panel => getComputedStyle(panel).overflowY") == "visible"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    screen.expect_theme("dark")


def test_question_mark_tells_the_keys_and_the_signs(screen: Screen) -> None:
    page = screen.page
    screen.open()
    sign = page.get_by_text("free GPU out of reach in use")
    expect(sign).to_be_visible()
    help_ = page.get_by_role("dialog", name="Keys and symbols")
    screen.press("?")
    expect(help_).to_contain_text("go back")
    expect(help_).to_contain_text("a free GPU, a GPU in use")
    expect(help_).to_contain_text("accepts only pods that tolerate its taint")
    screen.press("Escape")
    expect(help_).not_to_be_visible()
    screen.search.press_sequentially("?")
    expect(help_).not_to_be_visible()
    screen.button("Help").click()
    close = help_.get_by_role("button", name="Close")
    close.click()
    expect(help_).not_to_be_visible()


def test_empty_page_says_what_is_missing_and_what_to_do(page: Page, tmp_path: Path) -> None:
    with shown(tmp_path, [cluster_topology()]) as served:
        page.goto(served.address)
        steps = page.get_by_role("region", name="What to do next")
        heading = steps.get_by_role("heading")
        expect(heading).to_contain_text("The cluster has no nodes")
        expect(steps).to_contain_text("kubectl get nodes")
