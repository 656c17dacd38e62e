"""One node in a real browser: everything that its agent wrote, drawn and as a table."""

import re

import pytest
from playwright.sync_api import expect
from tests.ui.browser.screen import Screen
from tests.ui.browser.shown import FAULTY, Shown

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", [FAULTY, "gb200-01", "l40s-1"])
def test_link_matrix_is_a_table_with_every_word(screen: Screen, demo: Shown, name: str) -> None:
    screen.open(f"node={name}")
    answer = demo.ask(f"node/{name}")
    title = re.compile("Links between the GPUs and NICs")
    table = screen.page.get_by_role("table", name=title)
    expect(table).to_be_visible()
    _head, *rows = table.get_by_role("row").all()
    assert len(rows) == len(answer["matrix"])
    for row, cells, device in zip(rows, answer["matrix"], answer["devices"], strict=True):
        head = row.get_by_role("rowheader").inner_text()
        assert head.removeprefix("▲ ") == device["label"]
        words = []
        for cell in row.get_by_role("cell").all():
            text = cell.inner_text()
            words.append(text.split()[0])
        assert words == cells


def test_degraded_parts_are_visible_at_once(screen: Screen) -> None:
    page = screen.page
    screen.open(f"node={FAULTY}")
    main = page.get_by_role("main")
    reason = main.get_by_text("GPU 1: 17 of 18 NVLinks active")
    expect(reason).to_be_visible()
    title = re.compile(f"{FAULTY}: 8 GPUs and 12 NICs on 2 NUMA nodes, 4 NVSwitches")
    picture = page.get_by_role("img", name=title)
    expect(picture).to_contain_text("▲ GPU1")
    expect(picture).to_contain_text("NV17")
    expect(picture).to_contain_text("4 NVSwitches")
    cells = page.get_by_role("cell")
    weak = cells.filter(has_text="fewer than others")
    expect(weak).to_have_count(14)


def test_devices_are_drawn_where_they_are(screen: Screen, demo: Shown) -> None:
    page = screen.page
    screen.open("node=h200-1")
    answer = demo.ask("node/h200-1")
    picture = page.locator("svg.drawing")
    expect(picture).to_be_visible()
    frames = page.locator("svg .numa > rect").all()
    assert len(frames) == len(answer["numa"])
    for home, shape in zip(answer["numa"], frames, strict=True):
        frame = shape.bounding_box()
        assert frame
        right = frame["x"] + frame["width"]
        for label in home["devices"]:
            text = page.locator(f"text.label:text-is('{label}')")
            part = picture.locator("g.part", has=text).bounding_box()
            assert part
            assert frame["x"] <= part["x"]
            assert part["x"] + part["width"] <= right


def test_rails_join_devices(screen: Screen, demo: Shown) -> None:
    page = screen.page
    screen.open("node=h200-1")
    devices = demo.ask("node/h200-1")["devices"]
    count = sum(len(device["rails"]) for device in devices)
    assert count > 0
    rails = page.locator("svg .rail")
    expect(rails).to_have_count(count)
    tables = page.get_by_role("table")
    table = tables.filter(has_text="UUID")
    expect(table).to_contain_text(devices[0]["name"])


def test_tray_of_a_rack_is_joined_by_switches_outside(screen: Screen) -> None:
    page = screen.page
    screen.open("node=gb200-01")
    picture = page.locator("svg.drawing")
    expect(picture).to_contain_text("NVSwitches outside this node")
    definitions = page.get_by_role("definition")
    free = definitions.filter(has_text="4 allocatable, 1 free")
    expect(free).to_be_visible()


def test_node_that_is_gone_is_told_in_the_servers_words(screen: Screen) -> None:
    screen.open("node=missing")
    expect(screen.alert).to_contain_text("missing")
    back = screen.button("Back to the map")
    back.click()
    block = screen.domain("block block-1")
    expect(block).to_be_attached()
