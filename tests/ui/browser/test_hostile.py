"""Whatever stands in labels, annotations and messages is shown as text: no script ever runs from it.

Names of nodes are refused when they are read: no API server has such ones.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.saved import cluster_topology, demo_nodes
from tests.ui.browser.shown import RACK, Shown, condition, shown

SCRIPT = "</script><script>window.hacked=1</script>"
IMAGE = "<img src=x onerror=window.hacked=2>"
LINK = "javascript:window.hacked=3"
STYLE = '" style="background:url(\'https://evil.example\')" onmouseover="window.hacked=4'


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with shown(tmp_path_factory.mktemp("hostile"), objects()) as found:
        yield found


def objects() -> list[dict[str, Any]]:
    nodes = json.loads(json.dumps(demo_nodes(most=4)))
    for node in nodes:
        node["metadata"]["labels"] |= {
            RACK: IMAGE,
            "cloud.google.com/gce-topology-block": SCRIPT,
            "gpu.topology/gpu-product": STYLE,
            "gpu.topology/shape": SCRIPT,
            "gpu.topology/state": "degraded",
            "example.com/note": LINK,
            "__proto__": IMAGE,
        }
        node["spec"]["taints"] = [{"key": IMAGE, "value": SCRIPT, "effect": "NoSchedule"}]
    first = nodes[0]["metadata"]
    annotation = json.loads(first["annotations"]["gpu.topology/matrix"])
    annotation["reasons"] = [f"GPU 0: {IMAGE}", SCRIPT]
    annotation["gpus"][0]["uuid"] = IMAGE
    annotation["nics"][0]["name"] = SCRIPT
    first["annotations"]["gpu.topology/matrix"] = json.dumps(annotation)
    nodes[2]["metadata"]["labels"].pop(RACK)
    message = condition("LevelsCovered", "False", IMAGE, f"{SCRIPT} {IMAGE}")
    levels = [
        {"domain": "block", "key": "cloud.google.com/gce-topology-block"},
        {"domain": "rack", "key": RACK},
        {"domain": "host", "key": "kubernetes.io/hostname"},
    ]
    return [*nodes, cluster_topology({"conditions": [message]}, levels=levels)]


def assert_harmless(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, object, embed, [style*=url], [onerror], [onmouseover]").count() == 0
    assert page.locator("a[href^='javascript']").count() == 0


def visit_everything(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.get_by_role("region", name="Conditions that are not True")).to_contain_text(IMAGE)
    expect(page.get_by_role("tabpanel")).to_contain_text(f"GPU 0: {IMAGE}")
    assert_harmless(page)
    frame = page.locator(".map").bounding_box()
    assert frame
    for step in range(1, 8):
        page.mouse.move(frame["x"] + frame["width"] * step / 8, frame["y"] + frame["height"] / 2)
    for lens in ("product", "shape", "coverage"):
        page.get_by_role("combobox", name="Colour by").select_option(lens)
    assert_harmless(page)
    page.get_by_role("combobox", name="Search").fill("<img")
    expect(page.get_by_role("listbox").get_by_role("option").first).to_contain_text(IMAGE)
    assert_harmless(page)
    page.get_by_role("listbox").get_by_role("option").first.click()
    page.get_by_role("combobox", name="Search").fill("gb200-01")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text(f"GPU 0: {IMAGE}")
    page.get_by_text("other labels").click()
    expect(page.get_by_role("main")).to_contain_text(LINK)
    assert_harmless(page)
    page.get_by_role("tab", name="Changes").click()
    assert_harmless(page)


def test_nothing_runs_from_what_a_server_tells(page: Page, hostile: Shown) -> None:
    visit_everything(page, hostile.address)


def test_nothing_runs_from_a_change(page: Page, tmp_path: Path) -> None:
    with shown(tmp_path, objects()) as served:
        page.goto(served.address)
        expect(page.get_by_role("tabpanel")).to_contain_text(IMAGE)
        changed = objects()
        for node in changed[:4]:
            node["metadata"]["labels"][RACK] = f"{SCRIPT}2"
        served.write(changed)
        page.get_by_role("tab", name="Changes").click()

        expect(page.get_by_role("tabpanel")).to_contain_text("2")
        expect(page.get_by_role("tabpanel").get_by_role("listitem").first).to_contain_text(SCRIPT)
        assert_harmless(page)


def test_nothing_runs_from_a_link(page: Page, hostile: Shown) -> None:
    page.goto(f"{hostile.address}#view={IMAGE}&in={IMAGE}/{SCRIPT}&node={IMAGE}&by={IMAGE}&only={SCRIPT}")
    expect(page.get_by_role("heading", level=2)).to_contain_text(IMAGE)
    assert_harmless(page)
