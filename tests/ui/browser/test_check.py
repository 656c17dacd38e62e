"""A workload is pasted, and the page says what `toposcope check` would."""

import re

import pytest
from playwright.sync_api import Page, expect
from tests.support.paths import DOCUMENTS
from tests.ui.browser.shown import Shown
from tests.ui.browser.test_map import colours_of, domain, tone

pytestmark = pytest.mark.slow

JOB = (DOCUMENTS / "ui" / "kueue-job.yaml").read_text(encoding="utf-8")


def _ask(page: Page, text: str) -> None:
    page.get_by_role("tab", name="Check").click()
    page.get_by_label("Would it fit?").fill(text)
    page.get_by_role("tabpanel").get_by_role("button", name="Check", exact=True).click()


def test_domains_with_room_are_listed_and_marked(page: Page, demo: Shown) -> None:
    answer = demo.ask("check", {"workload": JOB})["checks"][0]
    assert answer["verdict"] == "fits"
    assert {tuple(fit["path"]) for fit in answer["fits"]} == {
        ("zone-1", "block-2", "rack-3"),
        ("zone-1", "block-2", "rack-4"),
    }
    page.goto(f"{demo.address}#in=zone-1/block-2")
    assert tone(page, "--fit") not in colours_of(domain(page, "rack rack-4"))[:20]
    _ask(page, JOB)
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text(answer["answer"])
    for demand in answer["demands"]:
        expect(panel).to_contain_text(demand.strip())
    assert tone(page, "--fit") in colours_of(domain(page, "rack rack-4"))[:20]
    panel.get_by_role("button", name="Marked on the map").click()
    expect(panel.get_by_role("button", name="Mark on the map")).to_be_visible()
    assert tone(page, "--fit") not in colours_of(domain(page, "rack rack-4"))[:20]
    panel.get_by_role("button", name=re.compile("rack-3$")).click()
    expect(page).to_have_url(f"{demo.address}#view=cluster&in=zone-1/block-2/rack-3")


@pytest.mark.parametrize("text", ["kind: [unclosed", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"])
def test_unreadable_workload_is_told_in_the_servers_words(page: Page, demo: Shown, text: str) -> None:
    answer = demo.ask("check", {"workload": text})
    words = [*answer["problems"], *answer["warnings"]]
    assert words
    page.goto(demo.address)
    _ask(page, text)
    for sentence in words:
        expect(page.get_by_role("tabpanel")).to_contain_text(sentence)


def test_button_can_be_read(page: Page, demo: Shown) -> None:
    # Letters of the colour of their ground are no finding of axe's: it cannot tell whether they are meant to be seen.
    page.goto(demo.address)
    page.get_by_role("tab", name="Check").click()
    button = page.get_by_role("tabpanel").get_by_role("button", name="Check", exact=True)
    colours = button.evaluate("button => [getComputedStyle(button).color, getComputedStyle(button).backgroundColor]")
    assert colours[0] != colours[1]
