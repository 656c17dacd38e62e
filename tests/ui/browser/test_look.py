"""What the page looks like: on a telephone, on paper, with nothing to show; whole words, and who is left out."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import Object, cluster_topology
from tests.ui.browser.shown import RACK, Shown, condition, demo_objects, labels, named, script, shown
from tests.ui.browser.test_map import colours_of, node, tone

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
    with shown(tmp_path_factory.mktemp("troubled"), troubled()) as found:
        yield found


@pytest.mark.parametrize("width", [1280, 768, 390])
def test_no_word_is_broken(page: Page, trouble: Shown, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(trouble.address)
    expect(page.get_by_role("table").filter(has_text="Domains")).to_contain_text("2 nodes lack it")
    assert page.evaluate(script("broken_words")) == []


def test_telephone_shows_conditions_in_brief_and_nodes_left_out(page: Page, trouble: Shown) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(trouble.address)
    conditions = page.get_by_role("region", name="Conditions that are not True")
    expect(conditions).to_contain_text("LevelsCovered=False, AgentsReporting=False, Published=False")
    box = conditions.bounding_box()
    assert box
    assert box["height"] < 844 / 6
    conditions.get_by_text("Published=False").first.click()
    expect(conditions).to_contain_text("the cluster serves no Topology of KAI")
    for name in ("h200-2", "l40s-3", "l40s-4"):
        box = node(page, name).bounding_box()
        assert box
        assert box["height"] >= 40, "room for a name"


@pytest.mark.parametrize(
    ("name", "colour", "words"),
    [
        pytest.param(
            "l40s-4",
            "left-out",
            "4 GPUs, 4 free, left out: without a rack label (cloud.google.com/gce-topology-subblock)",
            id="without-rack",
        ),
        pytest.param(
            "h200-2",
            "left-out",
            'left out: whose rack label says "no-topology", which names no rack '
            "(cloud.google.com/gce-topology-subblock)",
            id="placeholder",
        ),
        pytest.param("l40s-3", "no-agent", "no-agent: without an agent's label gpu.topology/gpus", id="no-agent"),
        pytest.param("h200-5", "tainted", "tainted", id="tainted"),
        pytest.param("h200-6", "cordoned", "cordoned", id="cordoned"),
    ],
)
def test_node_that_gets_no_pods_does_not_look_well(
    page: Page, trouble: Shown, name: str, colour: str, words: str
) -> None:
    if name in {"h200-5", "h200-6"}:
        page.goto(f"{trouble.address}#in=zone-1/block-2/rack-4")
    else:  # those that stand apart are shown with the whole
        page.goto(trouble.address)
    shown_node = node(page, name)
    expect(shown_node).to_be_attached()
    label = shown_node.get_attribute("aria-label") or ""
    assert words in label
    shown_colour = colours_of(shown_node)[0]
    assert shown_colour == tone(page, f"--health-{colour}")
    assert shown_colour != tone(page, "--health-ok")


def test_counts_are_the_topologys_with_nodes_left_out_apart(page: Page, trouble: Shown) -> None:
    page.goto(trouble.address)
    figures = page.get_by_role("tabpanel").locator("dl").first
    assert trouble.broadcaster.state
    view = trouble.broadcaster.state.views[0].summary
    assert (view.nodes, view.gpus, view.left_out) == (12, 72, 2)
    lost = f"left out, with {view.left_out_gpus} GPUs"
    counts = {
        "GPUs": view.gpus,
        "nodes": view.nodes,
        lost: 2,
        "without an agent": 1,
        "in trouble": 2,
    }
    for name, value in counts.items():
        expect(figures.locator("div").filter(has=page.get_by_text(name, exact=True))).to_have_text(f"{name}{value}")
    for sentence in ("1 node whose rack label says", "1 node without an agent", "1 node without a rack label"):
        expect(page.get_by_role("tabpanel").get_by_role("listitem").filter(has_text=sentence)).to_be_visible()


def test_paper_is_light_and_has_all_of_it(page: Page, trouble: Shown) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(f"{trouble.address}#in=zone-1/block-2/rack-3")
    expect(node(page, "h200-1")).to_be_attached()
    dark = tone(page, "--health-ok")
    assert dark != node(page, "h200-1").evaluate(script("printed_colour")) == tone(page, "--health-ok")
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 248)"
    panel = page.get_by_role("tabpanel")
    assert panel.evaluate("panel => getComputedStyle(panel).overflowY") == "visible"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_question_mark_tells_the_keys_and_the_signs(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    expect(page.get_by_text("free GPU taken")).to_be_visible()
    help_ = page.get_by_role("dialog", name="Keys and signs")
    page.keyboard.press("?")
    for words in ("go back", "a free GPU, a taken GPU", "takes only pods that tolerate its taint"):
        expect(help_).to_contain_text(words)
    page.keyboard.press("Escape")
    expect(help_).not_to_be_visible()
    page.get_by_role("combobox", name="Search").press_sequentially("?")
    expect(help_).not_to_be_visible()
    page.get_by_role("button", name="Help").click()
    help_.get_by_role("button", name="Close").click()
    expect(help_).not_to_be_visible()


def test_empty_page_says_what_is_missing_and_what_to_do(page: Page, tmp_path: Path) -> None:
    with shown(tmp_path, [cluster_topology()]) as served:
        page.goto(served.address)
        steps = page.get_by_role("region", name="What to do next")
        expect(steps.get_by_role("heading")).to_contain_text("The cluster has no nodes")
        expect(steps).to_contain_text("kubectl get nodes")
