"""A workload is pasted, and the page says what `toposcope check` would."""

import re

import pytest
from playwright.sync_api import Locator, expect
from tests.support.paths import DOCUMENTS
from tests.ui.browser.screen import Screen, colours_of
from tests.ui.browser.shown import Shown

pytestmark = pytest.mark.slow

JOB = (DOCUMENTS / "ui" / "kueue-job.yaml").read_text(encoding="utf-8")


def check_button(screen: Screen) -> Locator:
    return screen.panel.get_by_role("button", name="Check", exact=True)


def ask(screen: Screen, text: str) -> None:
    screen.tab("Check").click()
    box = screen.page.get_by_label("Would it fit?")
    box.fill(text)
    check_button(screen).click()


def test_domains_with_room_are_listed_and_marked(screen: Screen, demo: Shown) -> None:
    (answer,) = demo.ask("check", {"workload": JOB})["checks"]
    assert answer["verdict"] == "fits"
    paths = {tuple(fit["path"]) for fit in answer["fits"]}
    assert paths == {
        ("zone-1", "block-2", "rack-3"),
        ("zone-1", "block-2", "rack-4"),
    }
    screen.open("in=zone-1/block-2")
    mark = screen.tone("--fit")
    rack = screen.domain("rack rack-4")
    assert mark not in colours_of(rack)[:20]

    ask(screen, JOB)
    panel = screen.panel
    expect(panel).to_contain_text(answer["answer"])
    for demand in answer["demands"]:
        expect(panel).to_contain_text(demand.strip())
    assert mark in colours_of(rack)[:20]
    marked = panel.get_by_role("button", name="Marked on the map")
    marked.click()
    unmarked = panel.get_by_role("button", name="Mark on the map")
    expect(unmarked).to_be_visible()
    assert mark not in colours_of(rack)[:20]
    link = panel.get_by_role("button", name=re.compile("rack-3$"))
    link.click()
    screen.expect_address("view=cluster&in=zone-1/block-2/rack-3")


@pytest.mark.parametrize(
    "text",
    ["kind: [unclosed", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"],
    ids=["no-yaml", "config-map"],
)
def test_unreadable_workload_is_told_in_the_servers_words(screen: Screen, demo: Shown, text: str) -> None:
    answer = demo.ask("check", {"workload": text})
    words = [*answer["problems"], *answer["warnings"]]
    assert words
    screen.open()
    ask(screen, text)
    for sentence in words:
        expect(screen.panel).to_contain_text(sentence)


def test_button_can_be_read(screen: Screen) -> None:
    # Letters of the colour of their ground are no finding of axe's: it cannot tell whether they are meant to be seen.
    screen.open()
    screen.tab("Check").click()
    button = check_button(screen)
    letters = button.evaluate("button => getComputedStyle(button).color")
    ground = button.evaluate("button => getComputedStyle(button).backgroundColor")
    assert letters != ground
