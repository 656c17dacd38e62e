"""The search box: nodes and domains from the page's own data, GPUs from the server's."""

import re

import pytest
from playwright.sync_api import Locator, expect
from tests.ui.browser.screen import Screen
from tests.ui.browser.shown import Shown

pytestmark = pytest.mark.slow


def results(screen: Screen) -> Locator:
    return screen.page.get_by_role("listbox", name="Search results")


def options(screen: Screen) -> Locator:
    return results(screen).get_by_role("option")


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        pytest.param("l40s-2", "node", "in=zone-1/block-1/rack-2&node=l40s-2", id="node"),
        pytest.param("rack-4", "rack", "view=cluster&in=zone-1/block-2/rack-4", id="rack"),
        pytest.param("BLOCK-2", "block", "view=cluster&in=zone-1/block-2", id="upper-case"),
    ],
)
def test_typing_and_enter_lead_there(screen: Screen, text: str, kind: str, address: str) -> None:
    screen.open()
    box = screen.search
    expect(box).to_be_visible()
    screen.press("/")
    expect(box).to_be_focused()
    screen.page.keyboard.type(text)
    first = options(screen).first
    expect(first).to_contain_text(kind)
    screen.press("Enter")
    screen.expect_address(address)
    expect(box).to_have_value("")


def test_gpu_is_found_by_its_uuid(screen: Screen, demo: Shown) -> None:
    seen = demo.source.node("h200-5")
    assert seen
    assert seen.node.matrix
    uuids = re.findall(r"GPU-[0-9a-f-]{36}", seen.node.matrix)
    uuid = uuids[3]
    screen.open()
    screen.search.fill(uuid)
    option = results(screen).get_by_role("option", name=re.compile(uuid))
    option.click()
    heading = screen.heading("h200-5")
    expect(heading).to_be_visible()
    cell = screen.page.get_by_role("cell", name=uuid)
    expect(cell).to_be_visible()


def test_arrows_choose_and_escape_leaves(screen: Screen) -> None:
    screen.open()
    box = screen.search
    box.fill("gb200-0")
    screen.press("ArrowDown")
    chosen = results(screen).get_by_role("option", selected=True)
    expect(chosen).to_contain_text("gb200-02")
    screen.press("Escape")
    expect(box).to_have_value("")
    expect(options(screen)).to_have_count(0)
    expect(screen.page).to_have_url(screen.address)
    box.fill("no such thing")
    nothing = screen.page.get_by_text("No matching node, domain or GPU.")
    expect(nothing).to_be_visible()
