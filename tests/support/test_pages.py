"""Pages are compared unless they are rewritten."""

from pathlib import Path

import pytest
from tests.support import pages


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page in a folder of its own."""
    monkeypatch.setattr(pages, "DOCUMENTS", tmp_path)
    file = tmp_path / "page.txt"
    file.write_text("as it was\n")
    return file


def test_page_stays_as_it_was_whatever_is_printed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPOSCOPE_WRITE_PAGES", raising=False)
    assert pages.expected_page(page.name, "as it is\n") == "as it was\n"
    assert page.read_text() == "as it was\n"


def test_page_becomes_what_is_printed_when_pages_are_rewritten(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPOSCOPE_WRITE_PAGES", "1")
    assert pages.expected_page(page.name, "as it is\n") == "as it is\n"
    assert page.read_text() == "as it is\n"
