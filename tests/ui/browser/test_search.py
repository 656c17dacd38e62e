"""The search box: nodes and domains from the page's own data, GPUs from the server's."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.ui.browser.shown import Shown

pytestmark = pytest.mark.slow


def found(page: Page) -> Locator:
    return page.get_by_role("listbox", name="What was found")


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        pytest.param("l40s-2", "node", "in=zone-1/block-1/rack-2&node=l40s-2", id="node"),
        pytest.param("rack-4", "rack", "view=cluster&in=zone-1/block-2/rack-4", id="rack"),
        pytest.param("BLOCK-2", "block", "view=cluster&in=zone-1/block-2", id="upper-case"),
    ],
)
def test_typing_and_enter_lead_there(page: Page, demo: Shown, text: str, kind: str, address: str) -> None:
    page.goto(demo.address)
    box = page.get_by_role("combobox", name=re.compile("^Search"))
    expect(box).to_be_visible()
    page.keyboard.press("/")
    expect(box).to_be_focused()
    page.keyboard.type(text)
    expect(found(page).get_by_role("option").first).to_contain_text(kind)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{demo.address}#{address}")
    expect(box).to_have_value("")


def test_gpu_is_found_by_its_uuid(page: Page, demo: Shown) -> None:
    seen = demo.source.node("h200-5")
    assert seen
    assert seen.node.matrix
    uuid = re.findall(r"GPU-[0-9a-f-]{36}", seen.node.matrix)[3]
    page.goto(demo.address)
    page.get_by_role("combobox", name=re.compile("^Search")).fill(uuid)
    found(page).get_by_role("option", name=re.compile(uuid)).click()
    expect(page.get_by_role("heading", name="h200-5", level=2)).to_be_visible()
    expect(page.get_by_role("cell", name=uuid)).to_be_visible()


def test_arrows_choose_and_escape_leaves(page: Page, demo: Shown) -> None:
    page.goto(demo.address)
    box = page.get_by_role("combobox", name=re.compile("^Search"))
    box.fill("gb200-0")
    page.keyboard.press("ArrowDown")
    expect(found(page).get_by_role("option", selected=True)).to_contain_text("gb200-02")
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(found(page).get_by_role("option")).to_have_count(0)
    expect(page).to_have_url(demo.address)
    box.fill("no such thing")
    expect(page.get_by_text("Nothing in this cluster has that name.")).to_be_visible()
