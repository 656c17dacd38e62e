"""The page plans: a gang and its better place on the map, what still fits, and what a drain would do."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import pod
from tests.ui.browser.shown import demo_objects, shown
from tests.ui.browser.test_accessible import _serious
from tests.ui.browser.test_map import colours_of, domain, tone

pytestmark = pytest.mark.slow


def test_gang_and_a_drain(page: Page, tmp_path: Path) -> None:
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "controller": True,
        "uid": "1",
        "name": "apart",
    }
    pods = [pod(f"apart-{number}", node, 8) for number, node in enumerate(("h200-1", "h200-6"))]
    for running in pods:
        running["metadata"]["ownerReferences"] = [owner]
    with shown(tmp_path, [*demo_objects(), *pods]) as found:
        page.goto(f"{found.address}#in=zone-1/block-2")
        page.get_by_role("tab", name="Plan").click()
        panel = page.get_by_role("tabpanel")
        gang = panel.get_by_role("button", name="train/apart")
        expect(gang).to_contain_text("rack 2, could be 1 · ▲ fits better now")
        expect(
            panel.get_by_role("row", name=re.compile("^48 block 0 now, 1 when running work has ended"))
        ).to_be_visible()
        panel.get_by_role("button", name="What if block-2 is drained?").click()
        expect(panel).to_contain_text("▲ train/apart (Job, 16 GPUs, 2 of 2 pods): waits, as there is no room for it")
        gang.click()
        expect(panel).to_contain_text(re.compile("Outlined: where it would fit better, rack zone-1 .* rack-4[.]"))
        assert tone(page, "--fit") in colours_of(domain(page, "block block-2"))[:20]
        assert tone(page, "--fit") not in colours_of(domain(page, "block block-1"))[:20]
        assert _serious(page) == []
        page.reload()  # the address says which gang it is
        expect(panel).to_contain_text("Outlined: where it would fit better")
        gang.click()
        expect(gang).to_have_attribute("aria-pressed", "false")
