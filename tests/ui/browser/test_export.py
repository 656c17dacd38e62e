"""The one file of `toposcope ui --export`: the whole page, opened from a disk, with no server and no network."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.support.saved import Object, saved
from tests.ui.browser.shown import FAULTY, demo_objects
from tests.ui.browser.test_map import click_head, domain
from toposcope.snapshot.files import load_files
from toposcope.ui.bundle import Bundle
from toposcope.ui.export import export

pytestmark = pytest.mark.slow


def _exported(folder: Path, found: list[Object]) -> str:
    source, report = folder / "cluster.json", folder / "report.html"
    source.write_text(saved(found))
    snapshot = load_files([str(source)], keep_matrix=lambda _name, _not_ok: True)
    report.write_text(export(snapshot, "files", Bundle()), encoding="utf-8")
    return report.as_uri()


@pytest.fixture
def asked(page: Page) -> list[str]:
    """What the page asks for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


def test_report_shows_the_cluster_without_a_server(page: Page, tmp_path: Path, asked: list[str]) -> None:
    address = _exported(tmp_path, demo_objects())
    page.goto(address)
    expect(domain(page, "block block-2")).to_have_accessible_name(re.compile("6 nodes, 48 GPUs"))
    click_head(page, domain(page, "block block-2"))
    expect(page).to_have_url(f"{address}#in=zone-1/block-2")
    page.get_by_role("tabpanel").get_by_role("button", name=re.compile(FAULTY)).click()
    expect(page.get_by_role("table", name=re.compile("How the GPUs"))).to_contain_text("NV17")
    expect(page.get_by_role("banner")).to_contain_text("A saved report")
    page.get_by_role("tab", name="Check").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("A saved file cannot check workloads")
    page.get_by_role("tab", name="Changes").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("A saved file does not change")
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
