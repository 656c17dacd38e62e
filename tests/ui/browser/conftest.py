"""A real browser (Debian: `apt-get install chromium`) and the page as `make ui` builds it."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright
from tests.support.programs import lacking
from tests.ui.browser.screen import Screen
from tests.ui.browser.shown import Shown, demo_objects, shown
from toposcope.ui.bundle import Bundle

# A browser that is slow on a busy machine is not broken.
_PATIENCE = 15_000


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once; TOPOSCOPE_REQUIRE_BROWSER=1 turns its absence into a failure."""
    if Bundle().page() is None:
        lacking("BROWSER", "the page is not built: make ui")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        lacking("BROWSER", "there is no Chromium: apt-get install chromium")
    # Chromium's own sandbox does not start for root.
    is_root = os.getuid() == 0
    arguments = ["--no-sandbox"] if is_root else []
    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=arguments)
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page of 1280 by 800; an error on its console (the Content-Security-Policy's too) fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        reduced_motion="reduce",
    )
    context.set_default_timeout(_PATIENCE)
    found = context.new_page()
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            errors.append(message.text)

    found.on("console", note)
    found.on("pageerror", lambda error: errors.append(str(error)))
    yield found
    context.close()
    assert [error for error in errors if not _expected(error)] == []


def _expected(error: str) -> bool:
    """Whether the browser reports what a test did on purpose: stopped the server, requested what does not exist."""
    # `willReadFrequently` is about reading pixels back, which only tests do.
    expected = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "status of 4", "willReadFrequently")
    return any(words in error for words in expected)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The demo's cluster with some trouble, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("shown")
    with shown(folder, demo_objects()) as found:
        yield found


@pytest.fixture
def screen(page: Page, demo: Shown) -> Screen:
    """The demo's page."""
    return Screen(page, demo.address)
