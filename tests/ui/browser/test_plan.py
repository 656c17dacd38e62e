"""The page plans: a gang and its better place on the map, what still fits, and what a drain would do."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import pod
from tests.ui.browser.screen import Screen, colours_of
from tests.ui.browser.shown import demo_objects, shown
from tests.ui.browser.test_accessible import serious

pytestmark = pytest.mark.slow


def test_no_gang_is_not_praised(screen: Screen) -> None:
    screen.open()
    screen.tab("Plan").click()
    expect(screen.panel).to_contain_text("No gang of several GPU pods is running.")
    expect(screen.panel).not_to_contain_text("as close together as they can be")


def test_gang_and_a_drain(page: Page, tmp_path: Path) -> None:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "controller": True,
        "uid": "1",
        "name": "apart",
    }
    pods = [
        pod("apart-0", "h200-1", 8),
        pod("apart-1", "h200-6", 8),
    ]
    for running in pods:
        running["metadata"]["ownerReferences"] = [owner]
    with shown(tmp_path, [*demo_objects(), *pods]) as found:
        screen = Screen(page, found.address)
        screen.open("in=zone-1/block-2")
        screen.tab("Plan").click()
        panel = screen.panel
        gang = panel.get_by_role("button", name="train/apart")
        expect(gang).to_contain_text("rack 2, could be 1 · ▲ fits better now")
        slots = re.compile("^48 block 0 now, 1 when running work has ended")
        row = panel.get_by_role("row", name=slots)
        expect(row).to_be_visible()
        what_if = panel.get_by_role("button", name="What if block-2 is drained?")
        what_if.click()
        expect(panel).to_contain_text("▲ train/apart (Job, 16 GPUs, 2 of 2 pods): waits, as there is no room for it")
        gang.click()
        outlined = re.compile("Outlined: where it would fit better, rack zone-1 .* rack-4[.]")
        expect(panel).to_contain_text(outlined)
        mark = screen.tone("--fit")
        own_block = screen.domain("block block-2")
        other_block = screen.domain("block block-1")
        assert mark in colours_of(own_block)[:20]
        assert mark not in colours_of(other_block)[:20]
        assert serious(page) == []
        page.reload()  # the address says which gang it is
        expect(panel).to_contain_text("Outlined: where it would fit better")
        gang.click()
        expect(gang).to_have_attribute("aria-pressed", "false")


def test_gang_that_does_not_keep_its_rack_is_counted_and_explained(page: Page, tmp_path: Path) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True, "uid": "1", "name": "apart"}
    pods = [pod("apart-0", "h200-1", 8), pod("apart-1", "h200-6", 8)]
    for running in pods:
        running["metadata"]["ownerReferences"] = [owner]
        running["metadata"]["annotations"] = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    with shown(tmp_path, [*demo_objects(), *pods]) as found:
        screen = Screen(page, found.address)
        screen.open("")
        screen.tab("Plan").click()
        panel = screen.panel
        expect(panel).to_contain_text("1 VIOLATION, 0 UNOBSERVABLE, 0 MATCH")
        gang = panel.get_by_role("button", name="VIOLATION train/apart")
        expect(gang).to_contain_text("one rack required: VIOLATION; pod/apart-0 on h200-1 is in")
        gang.click()
        expect(panel).to_contain_text("fix: correct the label if it is wrong; else restart the gang after a checkpoint")
        expect(screen.tab("Plan")).to_have_text("Plan1")
        assert serious(page) == []
