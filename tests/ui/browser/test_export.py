"""The one file of `toposcope ui --export`: the whole page, opened from a disk, with no server and no network."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import Object, saved
from tests.ui.browser.screen import Screen, click_head
from tests.ui.browser.shown import FAULTY, demo_objects
from toposcope.snapshot.files import load_files
from toposcope.ui.bundle import Bundle
from toposcope.ui.export import export

pytestmark = pytest.mark.slow


def _exported(folder: Path, objects: list[Object]) -> str:
    source = folder / "cluster.json"
    source.write_text(saved(objects))
    snapshot = load_files([str(source)], keep_matrix=lambda _name, _not_ok: True)
    report = folder / "report.html"
    text = export(snapshot, "files", Bundle())
    report.write_text(text, encoding="utf-8")
    return report.as_uri()


@pytest.fixture
def asked(page: Page) -> list[str]:
    """What the page asks for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def test_report_shows_the_cluster_without_a_server(page: Page, tmp_path: Path, asked: list[str]) -> None:
    address = _exported(tmp_path, demo_objects())
    screen = Screen(page, address)
    screen.open()
    screen.expect_domain("block block-2", "6 nodes, 48 GPUs")
    block = screen.domain("block block-2")
    click_head(page, block)
    screen.expect_address("in=zone-1/block-2")
    faulty = screen.panel.get_by_role("button", name=re.compile(FAULTY))
    faulty.click()
    title = re.compile("Links between the GPUs")
    table = page.get_by_role("table", name=title)
    expect(table).to_contain_text("NV17")
    banner = page.get_by_role("banner")
    expect(banner).to_contain_text("Saved report")
    screen.tab("Check").click()
    expect(screen.panel).to_contain_text("A saved file cannot check workloads")
    screen.tab("Changes").click()
    expect(screen.panel).to_contain_text("A saved file shows no changes")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
