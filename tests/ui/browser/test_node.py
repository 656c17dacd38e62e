"""One node in a real browser: everything that its agent wrote, drawn and as a table."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.ui.browser.shown import FAULTY, Shown

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [FAULTY, "gb200-01", "l40s-1"])
def test_link_matrix_is_a_table_with_every_word(page: Page, demo: Shown, name: str) -> None:
    page.goto(f"{demo.address}#node={name}")
    answer = demo.ask(f"node/{name}")
    table = page.get_by_role("table", name=re.compile("How the GPUs and NICs"))
    expect(table).to_be_visible()
    rows = table.get_by_role("row").all()[1:]
    assert len(rows) == len(answer["matrix"])
    for row, cells, device in zip(rows, answer["matrix"], answer["devices"], strict=True):
        head = row.get_by_role("rowheader").inner_text()
        texts = [cell.inner_text() for cell in row.get_by_role("cell").all()]
        assert head.removeprefix("▲ ") == device["label"]
        assert [text.split()[0] for text in texts] == cells


def test_degraded_parts_are_visible_at_once(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#node={FAULTY}")
    main = page.get_by_role("main")
    expect(main.get_by_text("GPU 1: 17 of 18 NVLinks active")).to_be_visible()
    picture = page.get_by_role("img", name=re.compile(f"{FAULTY}: 8 GPUs and 12 NICs on 2 NUMA nodes, 4 NVSwitches"))
    expect(picture).to_contain_text("▲ GPU1")
    expect(picture).to_contain_text("NV17")
    expect(picture).to_contain_text("4 NVSwitches")
    weak = page.get_by_role("cell").filter(has_text="fewer than others")
    expect(weak).to_have_count(14)


def test_devices_are_drawn_where_they_are_and_rails_join_them(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#node=h200-1")
    answer = demo.ask("node/h200-1")
    picture = page.locator("svg.drawing")
    expect(picture).to_be_visible()
    homes = [home.evaluate("g => g.getBBox()") for home in page.locator("svg .numa > rect").all()]
    assert len(homes) == len(answer["numa"])
    for home, box in zip(answer["numa"], page.locator("svg .numa > rect").all(), strict=True):
        frame = box.bounding_box()
        assert frame
        for label in home["devices"]:
            part = picture.locator("g.part", has=page.locator(f"text.label:text-is('{label}')")).bounding_box()
            assert part
            assert frame["x"] <= part["x"]
            assert part["x"] + part["width"] <= frame["x"] + frame["width"]
    rails = sum(len(device["rails"]) for device in answer["devices"])
    assert rails > 0
    expect(page.locator("svg .rail")).to_have_count(rails)
    expect(page.get_by_role("table").filter(has_text="UUID")).to_contain_text(answer["devices"][0]["name"])


def test_tray_of_a_rack_is_joined_by_switches_outside(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#node=gb200-01")
    expect(page.locator("svg.drawing")).to_contain_text("NVSwitches outside this node")
    expect(page.get_by_role("definition").filter(has_text="4 allocatable, 1 free")).to_be_visible()


def test_node_that_is_gone_is_told_in_the_servers_words(page: Page, demo: Shown) -> None:
    page.goto(f"{demo.address}#node=missing")
    expect(page.get_by_role("alert")).to_contain_text("missing")
    page.get_by_role("button", name="Back to the map").click()
    expect(page.get_by_role("button", name=re.compile("^block block-1: "))).to_be_attached()
